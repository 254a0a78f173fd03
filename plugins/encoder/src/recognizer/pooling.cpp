// One vector of a text: its first row or the mean of those that count, and its length made 1.
#include <algorithm>
#include <utility>

#include "recognizer/known_facts.h"

namespace gpux_encoder {
namespace {

using State = Pooled::State;

constexpr double least_of_lengths = 1e-6;

bool is_axis(const std::optional<std::vector<std::int64_t>>& axes, std::int64_t axis, std::size_t rank) {
  return axes && axes->size() == 1 &&
         (axes->front() == axis || axes->front() == axis - static_cast<std::int64_t>(rank));
}

// The input that a field is, as 1 and 0, for the texts and tokens of its first two axes and all of the third.
std::optional<MaskSource> bits_of(const Field& field, const Reading& reading) {
  const std::size_t rank = field.shape.size();
  if (rank < 2 || rank > 3 || field.shape[0] != reading.texts || field.shape[1] != reading.tokens) return std::nullopt;
  const auto mask = mask_of(field, rank, 0, 1, reading);
  if (!mask || mask->counted != 1 || mask->hidden != 0) return std::nullopt;
  return mask->source;
}

bool is_width_or_one(const Size& size, const Reading& reading) {
  return size == Size{Size::Kind::number, 1} ||
         size == Size{Size::Kind::number, static_cast<std::int64_t>(reading.width)};
}

Meaning first_row(const Node& node, const Reading& reading) {
  const auto* hidden = reading.as<Hidden>(node.inputs[0]);
  if (hidden == nullptr || hidden->order != "bsw") return Unknown{};
  if (node.type == "Gather") {
    const auto* index = node.inputs.size() == 2 ? reading.as<Field>(node.inputs[1]) : nullptr;
    if (index == nullptr || index->shape.size() > 1 || scalar_of(*index) != 0.0 || integer(node, "axis", 0) != 1) {
      return unknown(node, "takes other rows than the first of each text");
    }
    return Pooled{State::vector, index->shape.empty() ? "bw" : "b1w", Pooling::cls, hidden->index, {}};
  }
  const std::size_t count = node.inputs.size();
  const auto number = [&](std::size_t index) { return index < count ? reading.scalar(node.inputs[index]) : 1.0; };
  const auto first = number(1), end = number(2), axis = number(3);
  if (count < 4 || number(4) != 1.0 || first != 0.0 || !end || !axis) {
    return unknown(node, "takes other rows than the first of each text");
  }
  if (*end > 1e9) return *hidden;
  const bool is_first = *end == 1 && (*axis == 1 || *axis == -2);
  if (!is_first) return unknown(node, "takes other rows than the first of each text");
  return Pooled{State::vector, "b1w", Pooling::cls, hidden->index, {}};
}

Meaning without_axis(const Node& node, const Reading& reading) {
  const auto* pooled = reading.as<Pooled>(node.inputs[0]);
  if (pooled == nullptr || pooled->order != "b1w") return Unknown{};
  if (node.type == "Squeeze") {
    if (!is_axis(reading.axes(node), 1, 3)) return Unknown{};
  } else {
    const auto shape = node.inputs.size() == 2 ? reading.sizes(node.inputs[1]) : std::nullopt;
    const Size width{Size::Kind::number, static_cast<std::int64_t>(reading.width)};
    if (!shape || shape->size() != 2 || (*shape)[1] != width ||
        ((*shape)[0] != reading.texts && (*shape)[0] != Size{Size::Kind::number, -1})) {
      return Unknown{};
    }
  }
  Pooled with = *pooled;
  with.order = "bw";
  return with;
}

// A mask of [texts, 1, tokens] times rows: their sum.
Meaning sum_by_product(const Node& node, const Reading& reading) {
  const auto* field = reading.as<Field>(node.inputs[0]);
  const auto* hidden = reading.as<Hidden>(node.inputs[1]);
  if (field == nullptr || hidden == nullptr || hidden->order != "bsw" || field->shape.size() != 3 ||
      field->shape != Shape{reading.texts, {Size::Kind::number, 1}, reading.tokens}) {
    return Unknown{};
  }
  const auto mask = mask_of(*field, 3, 0, 2, reading);
  if (!mask || mask->counted != 1 || mask->hidden != 0) return unknown(node, "adds rows up by what is no mask");
  return Pooled{State::summed, "b1w", Pooling::mean, hidden->index, mask->source};
}

Meaning masked_rows(const Node& node, const Reading& reading) {
  for (const auto& [first, second] : {std::pair{0, 1}, {1, 0}}) {
    const auto* hidden = reading.as<Hidden>(node.inputs[static_cast<std::size_t>(first)]);
    const auto* field = reading.as<Field>(node.inputs[static_cast<std::size_t>(second)]);
    if (hidden == nullptr || field == nullptr || hidden->order != "bsw") continue;
    const auto bits =
        field->shape.size() == 3 && is_width_or_one(field->shape[2], reading) ? bits_of(*field, reading) : std::nullopt;
    if (!bits) return unknown(node, "multiplies rows by what is no mask");
    return Masked{hidden->index, *bits};
  }
  return Unknown{};
}

Meaning sum(const Node& node, const Reading& reading) {
  const auto axes = reading.axes(node);
  const bool keeps = integer(node, "keepdims", 1) == 1;
  if (const auto* masked = reading.as<Masked>(node.inputs[0])) {
    if (!is_axis(axes, 1, 3)) return unknown(node, "adds rows up along another axis than the tokens");
    return Pooled{State::summed, keeps ? "b1w" : "bw", Pooling::mean, masked->hidden, masked->mask};
  }
  if (const auto* pooled = reading.as<Pooled>(node.inputs[0])) {
    if (pooled->state != State::squares || pooled->order != "bw" || !keeps || !is_axis(axes, 1, 2)) return Unknown{};
    Pooled with = *pooled;
    with.order = "b1";
    return with;
  }
  const auto* field = reading.as<Field>(node.inputs[0]);
  const auto bits = field == nullptr ? std::nullopt : bits_of(*field, reading);
  if (!bits || !is_axis(axes, 1, field->shape.size())) return Unknown{};
  if (field->shape.size() == 2) return TokenCount{*bits, keeps ? "b1" : "b", false};
  // The width of the encoder may not be known yet.
  if (field->shape[2].kind != Size::Kind::number) return Unknown{};
  const std::int64_t width = field->shape[2].number;
  return TokenCount{*bits, std::string(keeps ? "b1" : "b") + (width == 1 ? "1" : "w"), false, width};
}

// A number that only keeps a division from being one by 0.
Meaning at_least(const Node& node, const Reading& reading) {
  const bool is_clip = node.type == "Clip";
  const auto attribute = node.attributes.find("min");
  for (const auto& [value, bound] : {std::pair{0, 1}, {1, 0}}) {
    if (is_clip && value == 1) break;
    const auto index = static_cast<std::size_t>(bound);
    const bool is_input = index < node.inputs.size() && !node.inputs[index].empty();
    const double of_input = is_input ? reading.scalar(node.inputs[index]).value_or(0) : 0;
    const bool is_attribute = is_clip && attribute != node.attributes.end();
    const double least = is_attribute ? static_cast<double>(attribute->second.number) : of_input;
    const bool has_largest = node.attributes.contains("max") || (node.inputs.size() > 2 && !node.inputs[2].empty());
    if (!(least > 0) || (is_clip && has_largest)) continue;
    const std::string& of = node.inputs[static_cast<std::size_t>(value)];
    if (const auto* count = reading.as<TokenCount>(of); count != nullptr && least <= 1) {
      return TokenCount{count->mask, count->order, true, count->width};
    }
    if (const auto* pooled = reading.as<Pooled>(of);
        pooled != nullptr && pooled->state == State::length && least <= least_of_lengths) {
      Pooled with = *pooled;
      with.order = "b1+";
      return with;
    }
  }
  return Unknown{};
}

Meaning length(const Node& node, const Reading& reading) {
  const auto* pooled = reading.as<Pooled>(node.inputs[0]);
  if (pooled == nullptr) return Unknown{};
  Pooled with = *pooled;
  with.state = State::length;
  with.order = "b1";
  const bool is_sqrt = node.type == "Sqrt";
  if (is_sqrt) return pooled->state == State::squares && pooled->order == "b1" ? Meaning(with) : Meaning(Unknown{});
  const bool is_vector = pooled->state == State::vector && pooled->order == "bw";
  return is_vector && is_axis(reading.axes(node), 1, 2) && integer(node, "keepdims", 1) == 1 ? Meaning(with)
                                                                                             : Meaning(Unknown{});
}

Meaning squares(const Node& node, const Reading& reading) {
  const auto* pooled = reading.as<Pooled>(node.inputs[0]);
  const bool is_square = node.type == "Pow" ? reading.scalar(node.inputs[1]) == 2.0
                                            : reading.origin(node.inputs[0]) == reading.origin(node.inputs[1]);
  if (pooled == nullptr || pooled->state != State::vector || pooled->order != "bw" || !is_square) return Unknown{};
  Pooled with = *pooled;
  with.state = State::squares;
  return with;
}

Meaning quotient(const Node& node, const Reading& reading) {
  const auto* pooled = reading.as<Pooled>(node.inputs[0]);
  if (pooled == nullptr) return Unknown{};
  Pooled with = *pooled;
  if (const auto* count = reading.as<TokenCount>(node.inputs[1])) {
    std::string by_row = pooled->order;
    std::ranges::replace(by_row, 'w', '1');
    const bool is_as_wide = count->order == pooled->order && static_cast<std::size_t>(count->width) == reading.width;
    const bool fits = is_as_wide || count->order == by_row;
    if (pooled->state != State::summed || !fits || !count->is_guarded || count->mask != pooled->mask) {
      return unknown(node, "divides a sum of rows by what is not how many there are");
    }
    with.state = State::vector;
    return with;
  }
  const auto* length = reading.as<Pooled>(node.inputs[1]);
  const bool fits = pooled->state == State::vector && pooled->order == "bw" && length != nullptr &&
                    length->state == State::length && length->order == "b1+" && length->pooling == pooled->pooling &&
                    length->hidden == pooled->hidden && length->mask == pooled->mask;
  if (!fits) return Unknown{};
  with.state = State::normalized;
  return with;
}

Meaning expand(const Node& node, const Reading& reading) {
  const auto* length = reading.as<Pooled>(node.inputs[0]);
  const auto shape = node.inputs.size() == 2 ? reading.sizes(node.inputs[1]) : std::nullopt;
  const Shape vectors{reading.texts, {Size::Kind::number, static_cast<std::int64_t>(reading.width)}};
  if (length == nullptr || length->state != State::length || !shape || *shape != vectors) return Unknown{};
  return *length;
}

Meaning lp_normalization(const Node& node, const Reading& reading) {
  const auto* pooled = reading.as<Pooled>(node.inputs[0]);
  const std::int64_t axis = integer(node, "axis", -1);
  if (pooled == nullptr || pooled->state != State::vector || pooled->order != "bw" || (axis != 1 && axis != -1) ||
      integer(node, "p", 2) != 2) {
    return Unknown{};
  }
  Pooled with = *pooled;
  with.state = State::normalized;
  return with;
}

}  // namespace

Meaning read_pooling(const Node& node, const Reading& reading) {
  if (node.inputs.empty() || (!node.domain.empty() && node.domain != "ai.onnx")) return Unknown{};
  const std::string& type = node.type;
  const std::size_t count = node.inputs.size();
  if (type == "Gather" || type == "Slice") return first_row(node, reading);
  if (type == "Squeeze" || type == "Reshape") return without_axis(node, reading);
  if (type == "MatMul" && count == 2) return sum_by_product(node, reading);
  if (type == "ReduceSum") return sum(node, reading);
  if (type == "Clip" || (type == "Max" && count == 2)) return at_least(node, reading);
  if (type == "ReduceL2" || type == "Sqrt") return length(node, reading);
  if (type == "Expand") return expand(node, reading);
  if (type == "LpNormalization") return lp_normalization(node, reading);
  if (type == "Div" && count == 2) return quotient(node, reading);
  if (type == "Pow" && count == 2) return squares(node, reading);
  if (type == "Mul" && count == 2) {
    const Meaning square = squares(node, reading);
    return std::holds_alternative<Unknown>(square) ? masked_rows(node, reading) : square;
  }
  return Unknown{};
}

}  // namespace gpux_encoder
