// Pooling: the first token or the mean of the unmasked tokens, then L2 normalization.
#include <algorithm>
#include <utility>

#include "recognizer/known_facts.h"

namespace gpux_encoder {
namespace {

using State = Pooled::State;

constexpr double max_norm_epsilon = 1e-6;

bool is_axis(const std::optional<std::vector<std::int64_t>>& axes, std::int64_t axis, std::size_t rank) {
  return axes && axes->size() == 1 &&
         (axes->front() == axis || axes->front() == axis - static_cast<std::int64_t>(rank));
}

// The mask of 0 and 1 over the first two axes, equal along the third.
std::optional<MaskSource> bits_of(const SymbolicTensor& tensor, const KnownFacts& facts) {
  const std::size_t rank = tensor.shape.size();
  if (rank < 2 || rank > 3 || tensor.shape[0] != facts.batch || tensor.shape[1] != facts.sequence) return std::nullopt;
  const auto mask = mask_of(tensor, rank, 0, 1, facts);
  if (!mask || mask->unmasked != 1 || mask->masked != 0) return std::nullopt;
  return mask->source;
}

bool is_hidden_size_or_one(const Dimension& size, const KnownFacts& facts) {
  return size == Dimension{Dimension::Kind::fixed, 1} ||
         size == Dimension{Dimension::Kind::fixed, static_cast<std::int64_t>(facts.hidden_size)};
}

Fact first_row(const Node& node, const KnownFacts& facts) {
  const auto* hidden = facts.as<HiddenStates>(node.inputs[0]);
  if (hidden == nullptr || hidden->order != axis_order::batch_sequence_hidden) return Unknown{};
  if (node.type == "Gather") {
    const auto* index = node.inputs.size() == 2 ? facts.as<SymbolicTensor>(node.inputs[1]) : nullptr;
    if (index == nullptr || index->shape.size() > 1 || scalar_of(*index) != 0.0 || integer(node, "axis", 0) != 1) {
      return unknown(node, "takes other tokens than the first of each text");
    }
    return Pooled{State::vector,
                  index->shape.empty() ? axis_order::batch_hidden : axis_order::batch_one_hidden,
                  Pooling::cls,
                  hidden->index,
                  {}};
  }
  const std::size_t count = node.inputs.size();
  const auto scalar_input = [&](std::size_t index) { return index < count ? facts.scalar(node.inputs[index]) : 1.0; };
  const auto first = scalar_input(1), end = scalar_input(2), axis = scalar_input(3);
  if (count < 4 || scalar_input(4) != 1.0 || first != 0.0 || !end || !axis) {
    return unknown(node, "takes other tokens than the first of each text");
  }
  if (*end > 1e9) return *hidden;
  const bool is_first = *end == 1 && (*axis == 1 || *axis == -2);
  if (!is_first) return unknown(node, "takes other tokens than the first of each text");
  return Pooled{State::vector, axis_order::batch_one_hidden, Pooling::cls, hidden->index, {}};
}

Fact without_axis(const Node& node, const KnownFacts& facts) {
  const auto* pooled = facts.as<Pooled>(node.inputs[0]);
  if (pooled == nullptr || pooled->order != axis_order::batch_one_hidden) return Unknown{};
  if (node.type == "Squeeze") {
    if (!is_axis(facts.axes(node), 1, 3)) return Unknown{};
  } else {
    const auto shape = node.inputs.size() == 2 ? facts.dimensions(node.inputs[1]) : std::nullopt;
    const Dimension hidden_size = fixed(static_cast<std::int64_t>(facts.hidden_size));
    if (!shape || shape->size() != 2 || (*shape)[1] != hidden_size ||
        ((*shape)[0] != facts.batch && (*shape)[0] != Dimension{Dimension::Kind::fixed, -1})) {
      return Unknown{};
    }
  }
  Pooled with = *pooled;
  with.order = axis_order::batch_hidden;
  return with;
}

// A mask of [batch, 1, sequence] times hidden states: their sum.
Fact sum_by_product(const Node& node, const KnownFacts& facts) {
  const auto* tensor = facts.as<SymbolicTensor>(node.inputs[0]);
  const auto* hidden = facts.as<HiddenStates>(node.inputs[1]);
  if (tensor == nullptr || hidden == nullptr || hidden->order != axis_order::batch_sequence_hidden ||
      tensor->shape.size() != 3 || tensor->shape != Shape{facts.batch, {Dimension::Kind::fixed, 1}, facts.sequence}) {
    return Unknown{};
  }
  const auto mask = mask_of(*tensor, 3, 0, 2, facts);
  if (!mask || mask->unmasked != 1 || mask->masked != 0)
    return unknown(node, "sums rows by something else than a mask");
  return Pooled{State::summed, axis_order::batch_one_hidden, Pooling::mean, hidden->index, mask->source};
}

Fact masked_rows(const Node& node, const KnownFacts& facts) {
  for (const auto& [first, second] : {std::pair{0, 1}, {1, 0}}) {
    const auto* hidden = facts.as<HiddenStates>(node.inputs[static_cast<std::size_t>(first)]);
    const auto* tensor = facts.as<SymbolicTensor>(node.inputs[static_cast<std::size_t>(second)]);
    if (hidden == nullptr || tensor == nullptr || hidden->order != axis_order::batch_sequence_hidden) continue;
    const auto bits = tensor->shape.size() == 3 && is_hidden_size_or_one(tensor->shape[2], facts)
                          ? bits_of(*tensor, facts)
                          : std::nullopt;
    if (!bits) return unknown(node, "multiplies rows by something else than a mask");
    return MaskedHiddenStates{hidden->index, *bits};
  }
  return Unknown{};
}

Fact sum(const Node& node, const KnownFacts& facts) {
  const auto axes = facts.axes(node);
  const bool keeps = integer(node, "keepdims", 1) == 1;
  if (const auto* masked = facts.as<MaskedHiddenStates>(node.inputs[0])) {
    if (!is_axis(axes, 1, 3)) return unknown(node, "sums rows along another axis than the sequence");
    return Pooled{State::summed, keeps ? axis_order::batch_one_hidden : axis_order::batch_hidden, Pooling::mean,
                  masked->hidden_index, masked->mask};
  }
  if (const auto* pooled = facts.as<Pooled>(node.inputs[0])) {
    if (pooled->state != State::squares || pooled->order != axis_order::batch_hidden || !keeps || !is_axis(axes, 1, 2))
      return Unknown{};
    Pooled with = *pooled;
    with.order = axis_order::batch_one;
    return with;
  }
  const auto* tensor = facts.as<SymbolicTensor>(node.inputs[0]);
  const auto bits = tensor == nullptr ? std::nullopt : bits_of(*tensor, facts);
  if (!bits || !is_axis(axes, 1, tensor->shape.size())) return Unknown{};
  if (tensor->shape.size() == 2) return TokenCount{*bits, keeps ? axis_order::batch_one : axis_order::batch, false};
  // The hidden size of the encoder may not be known yet.
  if (tensor->shape[2].kind != Dimension::Kind::fixed) return Unknown{};
  const std::int64_t columns = tensor->shape[2].value;
  const AxisOrder order = keeps ? axis_order::batch_one_hidden : axis_order::batch_hidden;
  return TokenCount{*bits, columns == 1 ? order.with_one(order.rank() - 1) : order, false, columns};
}

// A lower bound that only prevents a division by 0.
Fact at_least(const Node& node, const KnownFacts& facts) {
  const bool is_clip = node.type == "Clip";
  const auto attribute = node.attributes.find("min");
  for (const auto& [value, bound] : {std::pair{0, 1}, {1, 0}}) {
    if (is_clip && value == 1) break;
    const auto index = static_cast<std::size_t>(bound);
    const bool is_input = index < node.inputs.size() && !node.inputs[index].empty();
    const double of_input = is_input ? facts.scalar(node.inputs[index]).value_or(0) : 0;
    const bool is_attribute = is_clip && attribute != node.attributes.end();
    const double least = is_attribute ? static_cast<double>(attribute->second.number) : of_input;
    const bool has_largest = node.attributes.contains("max") || (node.inputs.size() > 2 && !node.inputs[2].empty());
    if (!(least > 0) || (is_clip && has_largest)) continue;
    const std::string& of = node.inputs[static_cast<std::size_t>(value)];
    if (const auto* count = facts.as<TokenCount>(of); count != nullptr && least <= 1) {
      return TokenCount{count->mask, count->order, true, count->columns};
    }
    if (const auto* pooled = facts.as<Pooled>(of);
        pooled != nullptr && pooled->state == State::length && least <= max_norm_epsilon) {
      Pooled with = *pooled;
      with.is_clamped = true;
      return with;
    }
  }
  return Unknown{};
}

Fact l2_norm(const Node& node, const KnownFacts& facts) {
  const auto* pooled = facts.as<Pooled>(node.inputs[0]);
  if (pooled == nullptr) return Unknown{};
  Pooled with = *pooled;
  with.state = State::length;
  with.order = axis_order::batch_one;
  const bool is_sqrt = node.type == "Sqrt";
  if (is_sqrt)
    return pooled->state == State::squares && pooled->order == axis_order::batch_one ? Fact(with) : Fact(Unknown{});
  const bool is_vector = pooled->state == State::vector && pooled->order == axis_order::batch_hidden;
  return is_vector && is_axis(facts.axes(node), 1, 2) && integer(node, "keepdims", 1) == 1 ? Fact(with)
                                                                                           : Fact(Unknown{});
}

Fact squares(const Node& node, const KnownFacts& facts) {
  const auto* pooled = facts.as<Pooled>(node.inputs[0]);
  const bool is_square = node.type == "Pow" ? facts.scalar(node.inputs[1]) == 2.0
                                            : facts.origin(node.inputs[0]) == facts.origin(node.inputs[1]);
  if (pooled == nullptr || pooled->state != State::vector || pooled->order != axis_order::batch_hidden || !is_square)
    return Unknown{};
  Pooled with = *pooled;
  with.state = State::squares;
  return with;
}

Fact quotient(const Node& node, const KnownFacts& facts) {
  const auto* pooled = facts.as<Pooled>(node.inputs[0]);
  if (pooled == nullptr) return Unknown{};
  Pooled with = *pooled;
  if (const auto* count = facts.as<TokenCount>(node.inputs[1])) {
    const AxisOrder by_row = pooled->order.with_one(pooled->order.rank() - 1);
    const bool is_as_wide =
        count->order == pooled->order && static_cast<std::size_t>(count->columns) == facts.hidden_size;
    const bool fits = is_as_wide || count->order == by_row;
    if (pooled->state != State::summed || !fits || !count->is_guarded || count->mask != pooled->mask) {
      return unknown(node, "divides a sum of rows by something else than the number of unmasked tokens");
    }
    with.state = State::vector;
    return with;
  }
  const auto* length = facts.as<Pooled>(node.inputs[1]);
  const bool fits = pooled->state == State::vector && pooled->order == axis_order::batch_hidden && length != nullptr &&
                    length->state == State::length && length->is_clamped && length->pooling == pooled->pooling &&
                    length->hidden_index == pooled->hidden_index && length->mask == pooled->mask;
  if (!fits) return Unknown{};
  with.state = State::normalized;
  return with;
}

Fact expand(const Node& node, const KnownFacts& facts) {
  const auto* length = facts.as<Pooled>(node.inputs[0]);
  const auto shape = node.inputs.size() == 2 ? facts.dimensions(node.inputs[1]) : std::nullopt;
  const Shape vectors{facts.batch, {Dimension::Kind::fixed, static_cast<std::int64_t>(facts.hidden_size)}};
  if (length == nullptr || length->state != State::length || !shape || *shape != vectors) return Unknown{};
  return *length;
}

Fact lp_normalization(const Node& node, const KnownFacts& facts) {
  const auto* pooled = facts.as<Pooled>(node.inputs[0]);
  const std::int64_t axis = integer(node, "axis", -1);
  if (pooled == nullptr || pooled->state != State::vector || pooled->order != axis_order::batch_hidden ||
      (axis != 1 && axis != -1) || integer(node, "p", 2) != 2) {
    return Unknown{};
  }
  Pooled with = *pooled;
  with.state = State::normalized;
  return with;
}

}  // namespace

Fact derive_pooling(const Node& node, const KnownFacts& facts) {
  if (node.inputs.empty() || (!node.domain.empty() && node.domain != "ai.onnx")) return Unknown{};
  const std::string& type = node.type;
  const std::size_t count = node.inputs.size();
  if (type == "Gather" || type == "Slice") return first_row(node, facts);
  if (type == "Squeeze" || type == "Reshape") return without_axis(node, facts);
  if (type == "MatMul" && count == 2) return sum_by_product(node, facts);
  if (type == "ReduceSum") return sum(node, facts);
  if (type == "Clip" || (type == "Max" && count == 2)) return at_least(node, facts);
  if (type == "ReduceL2" || type == "Sqrt") return l2_norm(node, facts);
  if (type == "Expand") return expand(node, facts);
  if (type == "LpNormalization") return lp_normalization(node, facts);
  if (type == "Div" && count == 2) return quotient(node, facts);
  if (type == "Pow" && count == 2) return squares(node, facts);
  if (type == "Mul" && count == 2) {
    const Fact square = squares(node, facts);
    return std::holds_alternative<Unknown>(square) ? masked_rows(node, facts) : square;
  }
  return Unknown{};
}

}  // namespace gpux_encoder
