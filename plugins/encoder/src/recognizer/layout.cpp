// Reshapes, transposes and splits: hidden states as heads and back, one of query, key and value.
#include <array>
#include <utility>
#include <vector>

#include "recognizer/attention_scores.h"

namespace gpux_encoder {
namespace {

// The axis order after a Reshape, of those with the same elements in the same order. `num_heads` comes from the shape.
struct Layout {
  AxisOrder order;
  std::size_t num_heads = 0, parts = 1;
};

std::optional<Layout> laid_out(const Node& node, const KnownFacts& facts, const AxisOrder& from, std::size_t columns,
                               std::size_t known_heads) {
  struct Row {
    AxisOrder from, to;
  };

  using namespace axis_order;
  static constexpr std::array rows{Row{batch_sequence_hidden, batch_sequence_hidden},
                                   Row{batch_sequence_hidden, tokens_hidden},
                                   Row{batch_sequence_hidden, batch_sequence_heads_size},
                                   Row{batch_sequence_hidden, batch_sequence_qkv_heads_size},
                                   Row{tokens_hidden, tokens_hidden},
                                   Row{tokens_hidden, batch_sequence_hidden},
                                   Row{tokens_hidden, batch_sequence_heads_size},
                                   Row{tokens_hidden, batch_sequence_qkv_heads_size},
                                   Row{batch_sequence_heads_size, batch_sequence_hidden},
                                   Row{batch_sequence_heads_size, tokens_hidden},
                                   Row{batch_sequence_heads_size, batch_sequence_heads_size},
                                   Row{batch_heads_sequence_size, merged_heads_sequence_size},
                                   Row{batch_heads_size_sequence, merged_heads_size_sequence},
                                   Row{merged_heads_sequence_size, batch_heads_sequence_size},
                                   Row{merged_heads_size_sequence, batch_heads_size_sequence},
                                   Row{batch_heads_query_key, merged_heads_query_key},
                                   Row{merged_heads_query_key, batch_heads_query_key},
                                   Row{batch_heads_sequence_size, batch_heads_sequence_size},
                                   Row{batch_heads_size_sequence, batch_heads_size_sequence},
                                   Row{batch_heads_query_key, batch_heads_query_key}};
  const auto target = node.inputs.size() == 2 ? facts.dimensions(node.inputs[1]) : std::nullopt;
  if (!target) return std::nullopt;
  const bool zero_copies = integer(node, "allowzero", 0) == 0;
  using Kind = Dimension::Kind;
  const auto fixed = [](std::size_t value) { return Dimension{Kind::fixed, static_cast<std::int64_t>(value)}; };
  const auto times = [](const Dimension& a, const Dimension& b) -> std::optional<Dimension> {
    return dimension_of(apply(Operation::multiply, ElementType::int64, {dimension_value(a), dimension_value(b)}));
  };
  for (const Row& row : rows) {
    if (row.from != from || row.to.rank() != target->size()) continue;
    Layout result{row.to, known_heads, 1};
    const auto is_copied = [&](std::size_t index) { return index < from.rank() && from[index] == row.to[index]; };
    const auto size_of = [&](Axis axis) -> std::int64_t {
      const auto index = row.to.index_of(axis);
      if (!index) return 0;
      const Dimension& size = (*target)[*index];
      if (size.kind != Kind::fixed) return 0;
      return size.value == 0 && zero_copies && is_copied(*index) ? -1 : size.value;
    };
    const bool makes_heads =
        row.to.contains(Axis::heads) && !from.contains(Axis::heads) && !from.contains(Axis::batch_heads);
    if (makes_heads) {
      if (row.to.contains(Axis::qkv)) {
        if (size_of(Axis::qkv) != 3) continue;
        result.parts = 3;
      }
      const auto whole = static_cast<std::int64_t>(columns / result.parts);
      const std::int64_t told_heads = size_of(Axis::heads), head_size = size_of(Axis::head_size);
      const std::int64_t heads = told_heads > 0 ? told_heads : head_size > 0 ? whole / head_size : 0;
      if (heads <= 0 || columns % result.parts != 0 || whole % heads != 0) continue;
      result.num_heads = static_cast<std::size_t>(heads);
    }
    bool fits = true, has_rest = false;
    for (std::size_t axis = 0; axis < target->size() && fits; ++axis) {
      const Dimension& size = (*target)[axis];
      if (zero_copies && size == fixed(0)) {
        fits = is_copied(axis);
        continue;
      }
      if (size == Dimension{Kind::fixed, -1}) {
        fits = !has_rest;
        has_rest = true;
        continue;
      }
      std::optional<Dimension> expected;
      switch (row.to[axis]) {
        case Axis::batch:
          expected = facts.batch;
          break;
        case Axis::sequence:
        case Axis::key_sequence:
          expected = facts.sequence;
          break;
        case Axis::tokens:
          expected = times(facts.batch, facts.sequence);
          break;
        case Axis::batch_heads:
          expected = times(facts.batch, fixed(result.num_heads));
          break;
        case Axis::heads:
          expected = fixed(result.num_heads);
          break;
        case Axis::head_size:
          expected =
              result.num_heads == 0 ? std::nullopt : std::optional(fixed(columns / result.parts / result.num_heads));
          break;
        case Axis::qkv:
          expected = fixed(result.parts);
          break;
        case Axis::hidden:
          expected = fixed(columns);
          break;
        case Axis::one:
          expected = fixed(1);
          break;
      }
      fits = expected && *expected == size;
    }
    if (fits) return result;
  }
  return std::nullopt;
}

Fact reshape(const Node& node, const KnownFacts& facts) {
  const std::string& rows = node.inputs[0];
  const auto refused = [&] { return unknown(node, "reshapes to a shape that is not understood"); };
  if (const auto* hidden = facts.as<HiddenStates>(rows)) {
    const auto layout = laid_out(node, facts, hidden->order, facts.hidden_size, 0);
    if (!layout || layout->num_heads != 0) return refused();
    return HiddenStates{hidden->index, layout->order};
  }
  const auto* projection = facts.as<Projection>(rows);
  const auto* scaled = facts.as<Elementwise>(rows);
  if (projection != nullptr || scaled != nullptr) {
    const Projection& from = projection != nullptr ? *projection : scaled->projection;
    const auto layout = laid_out(node, facts, from.order, from.linear.columns, 0);
    if (!layout) return refused();
    if (layout->num_heads == 0) {
      Projection with = from;
      with.order = layout->order;
      if (projection != nullptr) return with;
      return Elementwise{node.outputs.front(), with, scaled->function};
    }
    const auto factor = projection != nullptr ? std::optional(1.0) : factor_of(*scaled->function);
    if (!factor || from.of != Projection::Of::hidden) return refused();
    return Heads{from, layout->num_heads, layout->parts, layout->order, *factor};
  }
  if (const auto* sum = facts.as<ResidualSum>(rows)) {
    const auto layout = laid_out(node, facts, sum->order, facts.hidden_size, 0);
    if (!layout || layout->num_heads != 0) return refused();
    ResidualSum with = *sum;
    with.order = with.projection.order = layout->order;
    return with;
  }
  if (const auto* heads = facts.as<Heads>(rows)) {
    const auto layout = laid_out(node, facts, heads->order, columns_of(*heads), heads->num_heads);
    if (!layout || heads->parts != 1) return refused();
    Heads with = *heads;
    with.order = layout->order;
    return with;
  }
  if (const auto* scores = facts.as<AttentionScores>(rows)) {
    const auto layout = laid_out(node, facts, scores->order, 1, scores->num_heads);
    if (!layout) return refused();
    AttentionScores with = *scores;
    with.order = layout->order;
    return with;
  }
  if (const auto* context = facts.as<Context>(rows)) {
    const auto layout = laid_out(node, facts, context->order, context->value.linear.columns, context->scores.num_heads);
    if (!layout) return refused();
    Context with = *context;
    with.order = layout->order;
    return with;
  }
  return Unknown{};
}

std::optional<AxisOrder> transposed(const Node& node, const AxisOrder& order) {
  const auto perm = node.attributes.find("perm");
  return perm == node.attributes.end() ? std::nullopt : order.transposed(perm->second.integers);
}

Fact transpose(const Node& node, const KnownFacts& facts) {
  if (const auto* heads = facts.as<Heads>(node.inputs[0])) {
    const auto order = transposed(node, heads->order);
    if (!order) return Unknown{};
    Heads with = *heads;
    with.order = *order;
    return with;
  }
  if (const auto* context = facts.as<Context>(node.inputs[0])) {
    const auto order = transposed(node, context->order);
    if (!order) return Unknown{};
    Context with = *context;
    with.order = *order;
    return with;
  }
  return Unknown{};
}

// One of query, key and value. The axis remains, with size 1.
std::optional<Heads> part_of(const Heads& heads, std::size_t axis, std::int64_t which) {
  if (heads.order[axis] != Axis::qkv || which < 0 || which >= static_cast<std::int64_t>(heads.parts))
    return std::nullopt;
  Heads with = heads;
  const std::size_t columns = columns_of(heads) / heads.parts;
  with.projection.linear.first_column += static_cast<std::size_t>(which) * columns;
  with.projection.linear.first_bias += static_cast<std::size_t>(which) * columns;
  with.projection.linear.columns = columns;
  with.parts = 1;
  with.order = with.order.with_one(axis);
  return with;
}

Fact gather(const Node& node, const KnownFacts& facts) {
  const auto* heads = facts.as<Heads>(node.inputs[0]);
  const auto* index = node.inputs.size() == 2 ? facts.as<SymbolicTensor>(node.inputs[1]) : nullptr;
  if (heads == nullptr || index == nullptr || index->shape.size() > 1) return Unknown{};
  const auto which = scalar_of(*index);
  const auto axis = axis_of(integer(node, "axis", 0), heads->order.rank());
  auto part = which && axis ? part_of(*heads, *axis, static_cast<std::int64_t>(*which)) : std::nullopt;
  if (!part) return unknown(node, "takes something else than one of query, key and value");
  if (index->shape.empty()) part->order = part->order.without(*axis);
  return *part;
}

Fact slice(const Node& node, const KnownFacts& facts) {
  const auto* heads = facts.as<Heads>(node.inputs[0]);
  const std::size_t count = node.inputs.size();
  if (heads == nullptr || count < 4 || (count > 4 && facts.scalar(node.inputs[4]) != 1.0)) return Unknown{};
  const auto first = facts.scalar(node.inputs[1]), end = facts.scalar(node.inputs[2]),
             along = facts.scalar(node.inputs[3]);
  const auto axis = along ? axis_of(static_cast<std::int64_t>(*along), heads->order.rank()) : std::nullopt;
  if (!first || !end || !axis) return Unknown{};
  const bool is_last = *first == static_cast<double>(heads->parts) - 1;
  const bool is_one = *end == *first + 1 || (is_last && *end > *first);
  const auto part = is_one ? part_of(*heads, *axis, static_cast<std::int64_t>(*first)) : std::nullopt;
  return part ? Fact(*part) : unknown(node, "takes something else than one of query, key and value");
}

Fact squeeze(const Node& node, const KnownFacts& facts) {
  const auto* heads = facts.as<Heads>(node.inputs[0]);
  const auto axes = facts.axes(node);
  if (heads == nullptr || !axes || axes->size() != 1) return Unknown{};
  const auto axis = axis_of(axes->front(), heads->order.rank());
  if (!axis || heads->order[*axis] != Axis::one) return Unknown{};
  Heads with = *heads;
  with.order = with.order.without(*axis);
  return with;
}

// The size of each output of a Split; empty if it is not known.
std::vector<std::int64_t> split_sizes(const Node& node, const KnownFacts& facts, std::size_t whole) {
  const auto attribute = node.attributes.find("split");
  if (node.inputs.size() > 1 && !node.inputs[1].empty()) {
    const auto* tensor = facts.as<SymbolicTensor>(node.inputs[1]);
    return tensor == nullptr ? std::vector<std::int64_t>() : integers_of(*tensor).value_or(std::vector<std::int64_t>());
  }
  if (attribute != node.attributes.end()) return attribute->second.integers;
  if (whole % node.outputs.size() != 0) return {};
  return std::vector<std::int64_t>(node.outputs.size(), static_cast<std::int64_t>(whole / node.outputs.size()));
}

}  // namespace

Fact derive_layout(const Node& node, const KnownFacts& facts) {
  if (node.inputs.empty() || (!node.domain.empty() && node.domain != "ai.onnx")) return Unknown{};
  if (node.type == "Reshape" && node.inputs.size() == 2) return reshape(node, facts);
  if (node.type == "Transpose") return transpose(node, facts);
  if (node.type == "Slice") return slice(node, facts);
  if (node.type == "Squeeze") return squeeze(node, facts);
  return node.type == "Gather" ? gather(node, facts) : Fact(Unknown{});
}

std::vector<Fact> derive_split(const Node& node, const KnownFacts& facts) {
  if (node.type != "Split" || node.inputs.empty() || node.outputs.empty()) return {};
  const auto* projection = facts.as<Projection>(node.inputs[0]);
  const auto* heads = facts.as<Heads>(node.inputs[0]);
  if (projection == nullptr && heads == nullptr) return {};
  const AxisOrder& order = projection != nullptr ? projection->order : heads->order;
  const auto axis = axis_of(integer(node, "axis", 0), order.rank());
  if (!axis || order[*axis] != (projection != nullptr ? Axis::hidden : Axis::qkv)) return {};
  const std::size_t whole = projection != nullptr ? projection->linear.columns : heads->parts;
  const std::vector<std::int64_t> sizes = split_sizes(node, facts, whole);
  if (sizes.size() != node.outputs.size()) return {};
  std::vector<Fact> parts;
  std::size_t first = 0;
  for (const std::int64_t size : sizes) {
    if (size <= 0 || first + static_cast<std::size_t>(size) > whole) return {};
    if (projection != nullptr) {
      parts.emplace_back(columns_of(*projection, first, static_cast<std::size_t>(size)));
    } else {
      const auto part = size == 1 ? part_of(*heads, *axis, static_cast<std::int64_t>(first)) : std::nullopt;
      if (!part) return {};
      parts.emplace_back(*part);
    }
    first += static_cast<std::size_t>(size);
  }
  return parts;
}

}  // namespace gpux_encoder
