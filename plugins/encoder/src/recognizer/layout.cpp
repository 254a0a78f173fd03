// The same elements in another order of axes: rows as heads and back, axes turned, one of several parts.
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "recognizer/attention_scores.h"

namespace gpux_encoder {
namespace {

// Which order rows have in a shape asked for, of those that hold the same elements in the same order. `heads` is found
// where the shape tells it.
struct Layout {
  std::string order;
  std::size_t heads = 0, parts = 1;
};

std::optional<Layout> laid_out(const Node& node, const Reading& reading, const std::string& from, std::size_t columns,
                               std::size_t known_heads) {
  struct Row {
    std::string_view from, to;
  };

  static constexpr std::array rows{Row{"bsw", "bsw"},  Row{"bsw", "rw"},    Row{"bsw", "bshd"},  Row{"bsw", "bsphd"},
                                   Row{"rw", "rw"},    Row{"rw", "bsw"},    Row{"rw", "bshd"},   Row{"rw", "bsphd"},
                                   Row{"bshd", "bsw"}, Row{"bshd", "rw"},   Row{"bshd", "bshd"}, Row{"bhsd", "xsd"},
                                   Row{"bhds", "xds"}, Row{"xsd", "bhsd"},  Row{"xds", "bhds"},  Row{"bhsk", "xsk"},
                                   Row{"xsk", "bhsk"}, Row{"bhsd", "bhsd"}, Row{"bhds", "bhds"}, Row{"bhsk", "bhsk"}};
  const auto target = node.inputs.size() == 2 ? reading.sizes(node.inputs[1]) : std::nullopt;
  if (!target) return std::nullopt;
  const bool zero_copies = integer(node, "allowzero", 0) == 0;
  using Kind = Size::Kind;
  const auto number = [](std::size_t value) { return Size{Kind::number, static_cast<std::int64_t>(value)}; };
  const auto times = [](const Size& a, const Size& b) -> std::optional<Size> {
    return size_of(apply(Operation::multiply, Element::int64, {size_of_batch(a), size_of_batch(b)}));
  };
  for (const Row& row : rows) {
    if (row.from != from || row.to.size() != target->size()) continue;
    Layout made{std::string(row.to), known_heads, 1};
    const auto at = [&](char letter) -> std::int64_t {
      const std::size_t axis = row.to.find(letter);
      if (axis == std::string_view::npos) return 0;
      const Size& size = (*target)[axis];
      if (size.kind != Kind::number) return 0;
      return size.number == 0 && zero_copies && axis < from.size() && from[axis] == letter ? -1 : size.number;
    };
    const bool makes_heads = row.to.find('h') != std::string_view::npos && from.find('h') == std::string::npos &&
                             from.find('x') == std::string::npos;
    if (makes_heads) {
      if (row.to == "bsphd") {
        if (at('p') != 3) continue;
        made.parts = 3;
      }
      const auto whole = static_cast<std::int64_t>(columns / made.parts);
      const std::int64_t heads_told = at('h'), width = at('d');
      const std::int64_t heads = heads_told > 0 ? heads_told : width > 0 ? whole / width : 0;
      if (heads <= 0 || columns % made.parts != 0 || whole % heads != 0) continue;
      made.heads = static_cast<std::size_t>(heads);
    }
    bool fits = true, has_rest = false;
    for (std::size_t axis = 0; axis < target->size() && fits; ++axis) {
      const Size& size = (*target)[axis];
      const char letter = row.to[axis];
      if (zero_copies && size == number(0)) {
        fits = axis < from.size() && from[axis] == letter;
        continue;
      }
      if (size == Size{Kind::number, -1}) {
        fits = !has_rest;
        has_rest = true;
        continue;
      }
      std::optional<Size> expected;
      switch (letter) {
        case 'b':
          expected = reading.texts;
          break;
        case 's':
        case 'k':
          expected = reading.tokens;
          break;
        case 'r':
          expected = times(reading.texts, reading.tokens);
          break;
        case 'x':
          expected = times(reading.texts, number(made.heads));
          break;
        case 'h':
          expected = number(made.heads);
          break;
        case 'd':
          expected = made.heads == 0 ? std::nullopt : std::optional(number(columns / made.parts / made.heads));
          break;
        case 'p':
          expected = number(made.parts);
          break;
        default:
          expected = number(columns);
          break;
      }
      fits = expected && *expected == size;
    }
    if (fits) return made;
  }
  return std::nullopt;
}

Meaning reshape(const Node& node, const Reading& reading) {
  const std::string& rows = node.inputs[0];
  const auto refused = [&] { return unknown(node, "gives rows a shape that is not understood"); };
  if (const auto* hidden = reading.as<Hidden>(rows)) {
    const auto layout = laid_out(node, reading, hidden->order, reading.width, 0);
    if (!layout || layout->heads != 0) return refused();
    return Hidden{hidden->index, layout->order};
  }
  const auto* product = reading.as<Product>(rows);
  const auto* scaled = reading.as<Elementwise>(rows);
  if (product != nullptr || scaled != nullptr) {
    const Product& from = product != nullptr ? *product : scaled->product;
    const auto layout = laid_out(node, reading, from.order, from.linear.columns, 0);
    if (!layout) return refused();
    if (layout->heads == 0) {
      Product with = from;
      with.order = layout->order;
      if (product != nullptr) return with;
      return Elementwise{node.outputs.front(), with, scaled->function};
    }
    const auto factor = product != nullptr ? std::optional(1.0) : factor_of(*scaled->function);
    if (!factor || from.of != Product::Of::hidden) return refused();
    return Heads{from, layout->heads, layout->parts, layout->order, *factor};
  }
  if (const auto* sum = reading.as<Sum>(rows)) {
    const auto layout = laid_out(node, reading, sum->order, reading.width, 0);
    if (!layout || layout->heads != 0) return refused();
    Sum with = *sum;
    with.order = with.product.order = layout->order;
    return with;
  }
  if (const auto* heads = reading.as<Heads>(rows)) {
    const auto layout = laid_out(node, reading, heads->order, columns_of(*heads), heads->heads);
    if (!layout || heads->parts != 1) return refused();
    Heads with = *heads;
    with.order = layout->order;
    return with;
  }
  if (const auto* scores = reading.as<Scores>(rows)) {
    const auto layout = laid_out(node, reading, scores->order, 1, scores->heads);
    if (!layout) return refused();
    Scores with = *scores;
    with.order = layout->order;
    return with;
  }
  if (const auto* context = reading.as<Context>(rows)) {
    const auto layout = laid_out(node, reading, context->order, context->value.linear.columns, context->scores.heads);
    if (!layout) return refused();
    Context with = *context;
    with.order = layout->order;
    return with;
  }
  return Unknown{};
}

std::optional<std::string> turned(const Node& node, const std::string& order) {
  const auto given = node.attributes.find("perm");
  if (given == node.attributes.end() || given->second.integers.size() != order.size()) return std::nullopt;
  std::string out;
  for (const std::int64_t axis : given->second.integers) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(order.size())) return std::nullopt;
    out += order[static_cast<std::size_t>(axis)];
  }
  return out;
}

Meaning transpose(const Node& node, const Reading& reading) {
  if (const auto* heads = reading.as<Heads>(node.inputs[0])) {
    const auto order = turned(node, heads->order);
    if (!order) return Unknown{};
    Heads with = *heads;
    with.order = *order;
    return with;
  }
  if (const auto* context = reading.as<Context>(node.inputs[0])) {
    const auto order = turned(node, context->order);
    if (!order) return Unknown{};
    Context with = *context;
    with.order = *order;
    return with;
  }
  return Unknown{};
}

// Of query, key and value beside each other, one. Its axis stays, with one place.
std::optional<Heads> part_of(const Heads& heads, std::size_t axis, std::int64_t which) {
  if (heads.order[axis] != 'p' || which < 0 || which >= static_cast<std::int64_t>(heads.parts)) return std::nullopt;
  Heads with = heads;
  const std::size_t columns = columns_of(heads) / heads.parts;
  with.product.linear.first_column += static_cast<std::size_t>(which) * columns;
  with.product.linear.first_bias += static_cast<std::size_t>(which) * columns;
  with.product.linear.columns = columns;
  with.parts = 1;
  with.order[axis] = '1';
  return with;
}

Meaning gather(const Node& node, const Reading& reading) {
  const auto* heads = reading.as<Heads>(node.inputs[0]);
  const auto* index = node.inputs.size() == 2 ? reading.as<Field>(node.inputs[1]) : nullptr;
  if (heads == nullptr || index == nullptr || index->shape.size() > 1) return Unknown{};
  const auto which = scalar_of(*index);
  const auto axis = axis_of(integer(node, "axis", 0), heads->order.size());
  auto part = which && axis ? part_of(*heads, *axis, static_cast<std::int64_t>(*which)) : std::nullopt;
  if (!part) return unknown(node, "takes something else than one of query, key and value");
  if (index->shape.empty()) part->order.erase(*axis, 1);
  return *part;
}

Meaning slice(const Node& node, const Reading& reading) {
  const auto* heads = reading.as<Heads>(node.inputs[0]);
  const std::size_t count = node.inputs.size();
  if (heads == nullptr || count < 4 || (count > 4 && reading.scalar(node.inputs[4]) != 1.0)) return Unknown{};
  const auto first = reading.scalar(node.inputs[1]), end = reading.scalar(node.inputs[2]),
             along = reading.scalar(node.inputs[3]);
  const auto axis = along ? axis_of(static_cast<std::int64_t>(*along), heads->order.size()) : std::nullopt;
  if (!first || !end || !axis) return Unknown{};
  const bool is_last = *first == static_cast<double>(heads->parts) - 1;
  const bool is_one = *end == *first + 1 || (is_last && *end > *first);
  const auto part = is_one ? part_of(*heads, *axis, static_cast<std::int64_t>(*first)) : std::nullopt;
  return part ? Meaning(*part) : unknown(node, "takes something else than one of query, key and value");
}

Meaning squeeze(const Node& node, const Reading& reading) {
  const auto* heads = reading.as<Heads>(node.inputs[0]);
  const auto axes = reading.axes(node);
  if (heads == nullptr || !axes || axes->size() != 1) return Unknown{};
  const auto axis = axis_of(axes->front(), heads->order.size());
  if (!axis || heads->order[*axis] != '1') return Unknown{};
  Heads with = *heads;
  with.order.erase(*axis, 1);
  return with;
}

// How many places of an axis each output of a Split has; empty where it is not told.
std::vector<std::int64_t> split_sizes(const Node& node, const Reading& reading, std::size_t whole) {
  const auto attribute = node.attributes.find("split");
  if (node.inputs.size() > 1 && !node.inputs[1].empty()) {
    const auto* field = reading.as<Field>(node.inputs[1]);
    return field == nullptr ? std::vector<std::int64_t>() : numbers_of(*field).value_or(std::vector<std::int64_t>());
  }
  if (attribute != node.attributes.end()) return attribute->second.integers;
  if (whole % node.outputs.size() != 0) return {};
  return std::vector<std::int64_t>(node.outputs.size(), static_cast<std::int64_t>(whole / node.outputs.size()));
}

}  // namespace

Meaning read_layout(const Node& node, const Reading& reading) {
  if (node.inputs.empty() || (!node.domain.empty() && node.domain != "ai.onnx")) return Unknown{};
  if (node.type == "Reshape" && node.inputs.size() == 2) return reshape(node, reading);
  if (node.type == "Transpose") return transpose(node, reading);
  if (node.type == "Slice") return slice(node, reading);
  if (node.type == "Squeeze") return squeeze(node, reading);
  return node.type == "Gather" ? gather(node, reading) : Meaning(Unknown{});
}

std::vector<Meaning> read_split(const Node& node, const Reading& reading) {
  if (node.type != "Split" || node.inputs.empty() || node.outputs.empty()) return {};
  const auto* product = reading.as<Product>(node.inputs[0]);
  const auto* heads = reading.as<Heads>(node.inputs[0]);
  if (product == nullptr && heads == nullptr) return {};
  const std::string& order = product != nullptr ? product->order : heads->order;
  const auto axis = axis_of(integer(node, "axis", 0), order.size());
  if (!axis || order[*axis] != (product != nullptr ? 'w' : 'p')) return {};
  const std::size_t whole = product != nullptr ? product->linear.columns : heads->parts;
  const std::vector<std::int64_t> sizes = split_sizes(node, reading, whole);
  if (sizes.size() != node.outputs.size()) return {};
  std::vector<Meaning> parts;
  std::size_t first = 0;
  for (const std::int64_t size : sizes) {
    if (size <= 0 || first + static_cast<std::size_t>(size) > whole) return {};
    if (product != nullptr) {
      parts.emplace_back(columns_of(*product, first, static_cast<std::size_t>(size)));
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
