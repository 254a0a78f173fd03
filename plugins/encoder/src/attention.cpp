// Attention: products as heads, their scores, what a mask makes of them, shares, and what is mixed by them; or all of
// it in one node.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "reading.h"

namespace gpux_encoder {
namespace {

constexpr double largest_of_hidden = -9999;

std::size_t columns_of(const Heads& heads) {
  return heads.product.linear.columns;
}

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
      const std::int64_t heads = at('h') > 0 ? at('h') : at('d') > 0 ? whole / at('d') : 0;
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

// A number that the elements are multiplied by, and nothing else.
std::optional<double> factor_of(const Expression& function) {
  const bool is_scaled = function.is(Operation::multiply) || function.is(Operation::divide);
  if (!is_scaled || function.arguments[0]->kind != Expression::Kind::input) return std::nullopt;
  const auto number = number_of(function.arguments[1]);
  if (!number || *number == 0) return std::nullopt;
  return function.is(Operation::divide) ? 1 / *number : *number;
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

// Of query, key and value beside each other, one.
Meaning part_of(const Node& node, const Reading& reading) {
  const auto* heads = reading.as<Heads>(node.inputs[0]);
  const auto which = node.inputs.size() == 2 ? reading.scalar(node.inputs[1]) : std::nullopt;
  const auto* index = node.inputs.size() == 2 ? reading.as<Field>(node.inputs[1]) : nullptr;
  if (heads == nullptr || !which || !index->shape.empty() || heads->parts == 1) return Unknown{};
  const auto axis = axis_of(integer(node, "axis", 0), heads->order.size());
  if (!axis || heads->order[*axis] != 'p' || *which < 0 || *which >= static_cast<double>(heads->parts)) {
    return Unknown{};
  }
  Heads with = *heads;
  const std::size_t columns = heads->product.linear.columns / heads->parts;
  with.product.linear.first_column += static_cast<std::size_t>(*which) * columns;
  with.product.linear.first_bias += static_cast<std::size_t>(*which) * columns;
  with.product.linear.columns = columns;
  with.parts = 1;
  with.order.erase(*axis, 1);
  return with;
}

bool are_alike(const Heads& a, const Heads& b) {
  return a.heads == b.heads && a.parts == 1 && b.parts == 1 && a.product.hidden == b.product.hidden &&
         columns_of(a) == columns_of(b);
}

std::optional<Scores> scores_of(const Heads& query, const Heads& key, std::string order) {
  if (!are_alike(query, key)) return std::nullopt;
  return Scores{query.product,      key.product,     query.heads, query.scale * key.scale, {}, {},
                Scores::Stage::raw, std::move(order)};
}

Meaning mixed(const Node& node, const Scores& scores, const Heads& value, std::string order) {
  const bool fits = value.heads == scores.heads && value.scale == 1 && value.parts == 1 &&
                    value.product.hidden == scores.query.hidden && columns_of(value) == scores.query.linear.columns;
  if (!fits) return unknown(node, "mixes values that do not belong to the scores");
  return Context{scores, value.product, std::move(order)};
}

Meaning matmul(const Node& node, const Reading& reading) {
  const bool is_fused = node.domain == "com.microsoft";
  const auto alpha = node.attributes.find("alpha");
  const double factor = is_fused && alpha != node.attributes.end() ? static_cast<double>(alpha->second.number) : 1;
  const bool turns = is_fused && integer(node, "transB", 0) != 0;
  if (is_fused && (integer(node, "transA", 0) != 0 || integer(node, "transBatchA", 0) != 0 ||
                   integer(node, "transBatchB", 0) != 0)) {
    return Unknown{};
  }
  const auto* right = reading.as<Heads>(node.inputs[1]);
  if (right == nullptr) return Unknown{};
  std::string order = right->order;
  if (turns && order.size() > 2) std::swap(order[order.size() - 1], order[order.size() - 2]);
  if (const auto* query = reading.as<Heads>(node.inputs[0])) {
    const bool is_product = (query->order == "bhsd" && order == "bhds") || (query->order == "xsd" && order == "xds");
    auto scores = is_product ? scores_of(*query, *right, query->order == "xsd" ? "xsk" : "bhsk") : std::nullopt;
    if (!scores) return unknown(node, "multiplies heads that are not queries and keys of the same rows");
    scores->scale *= factor;
    return *scores;
  }
  if (const auto* scores = reading.as<Scores>(node.inputs[0])) {
    if (scores->stage != Scores::Stage::shares) return unknown(node, "mixes values by what is not shares");
    const bool fits = (scores->order == "bhsk" && order == "bhsd") || (scores->order == "xsk" && order == "xsd");
    if (!fits || factor != 1) return unknown(node, "mixes values of another order");
    return mixed(node, *scores, *right, order);
  }
  return Unknown{};
}

Field seen_by_scores(const ExpressionPointer& at, const Reading& reading, std::size_t heads) {
  return {{reading.texts, {Size::Kind::number, static_cast<std::int64_t>(heads)}, reading.tokens, reading.tokens},
          Element::float32,
          at};
}

// Scores with masks and relative positions added; empty and `why` where it is anything else.
std::optional<Scores> with_added(const Scores& scores, const Field& added, const Reading& reading, std::string& why) {
  const auto refuse = [&](const char* reason) {
    why = reason;
    return std::nullopt;
  };
  const bool fits =
      added.shape.size() <= 4 && broadcast(added.shape, {reading.texts,
                                                         {Size::Kind::number, static_cast<std::int64_t>(scores.heads)},
                                                         reading.tokens,
                                                         reading.tokens});
  if (!fits || scores.stage != Scores::Stage::raw || scores.order != "bhsk") {
    return refuse("adds something of another shape to scores");
  }
  Scores with = scores;
  for (const ExpressionPointer& term : terms_of(seen_from(added, 4))) {
    const Field field = seen_by_scores(term, reading, scores.heads);
    if (const auto mask = mask_of(field, 4, 0, 3, reading)) {
      if (mask->counted == 0 && mask->hidden == 0) continue;
      if (mask->counted != 0 || !(mask->hidden < largest_of_hidden) || mask->input.empty()) {
        return refuse("adds a mask to scores that does not hide keys, and nothing else");
      }
      if (with.mask) return refuse("adds a second mask to scores");
      with.mask = FoundMask{mask->input, {static_cast<float>(mask->hidden), false, false}, false};
      continue;
    }
    const bool is_relative = !contains(*term, [](const Expression& one) {
      return one.kind == Expression::Kind::input || one.kind == Expression::Kind::count ||
             one.kind == Expression::Kind::size || is_place(std::make_shared<const Expression>(one), 0);
    });
    if (!is_relative) return refuse("adds something to scores that is neither a mask over keys nor relative positions");
    if (with.relative || (with.mask && with.mask->keys.replaces))
      return refuse("adds relative positions a second time");
    with.relative = field;
  }
  return with;
}

Meaning add(const Node& node, const Reading& reading) {
  for (const auto& [first, second] : {std::pair{0, 1}, {1, 0}}) {
    const auto* scores = reading.as<Scores>(node.inputs[static_cast<std::size_t>(first)]);
    const auto* added = reading.as<Field>(node.inputs[static_cast<std::size_t>(second)]);
    if (scores == nullptr) continue;
    if (added == nullptr) return unknown(node, "adds something unknown to scores");
    std::string why;
    const auto with = with_added(*scores, *added, reading, why);
    return with ? Meaning(*with) : unknown(node, why);
  }
  return Unknown{};
}

Meaning scale(const Node& node, const Reading& reading) {
  for (const auto& [value, other] : {std::pair{0, 1}, {1, 0}}) {
    if (node.type == "Div" && value == 1) break;
    const std::string& rows = node.inputs[static_cast<std::size_t>(value)];
    const auto* heads = reading.as<Heads>(rows);
    const auto* scores = reading.as<Scores>(rows);
    if (heads == nullptr && scores == nullptr) continue;
    const auto number = reading.scalar(node.inputs[static_cast<std::size_t>(other)], 3);
    if (!number || *number == 0 || !std::isfinite(*number)) {
      return unknown(node, "scales heads or scores by what is no number");
    }
    const double factor = node.type == "Div" ? 1 / *number : *number;
    if (heads != nullptr) {
      Heads with = *heads;
      with.scale *= factor;
      return with;
    }
    if (scores->mask || scores->relative || scores->stage != Scores::Stage::raw) {
      return unknown(node, "scales scores behind their mask");
    }
    Scores with = *scores;
    with.scale *= factor;
    return with;
  }
  return Unknown{};
}

Meaning softmax(const Node& node, const Reading& reading) {
  const auto* scores = reading.as<Scores>(node.inputs[0]);
  if (scores == nullptr) return Unknown{};
  // Before version 13 it was over all axes from the second on where nothing else was said.
  const std::int64_t axis = integer(node, "axis", node.version < 13 ? 1 : -1);
  const auto last = static_cast<std::int64_t>(scores->order.size()) - 1;
  if (scores->stage != Scores::Stage::raw || (axis != -1 && axis != last)) {
    return unknown(node, "is not over the keys");
  }
  Scores with = *scores;
  with.stage = Scores::Stage::shares;
  return with;
}

std::optional<double> number_everywhere(const Field& field) {
  return field.shape.size() <= 4 ? number_of(seen_from(field, 4)) : std::nullopt;
}

// Scores of which hidden keys have a number instead, or shares that are 0 where they would be no numbers.
Meaning where(const Node& node, const Reading& reading) {
  for (const bool is_second : {false, true}) {
    const std::string &rows = node.inputs[is_second ? 2 : 1], &other = node.inputs[is_second ? 1 : 2];
    const auto* scores = reading.as<Scores>(rows);
    if (scores == nullptr) continue;
    const auto* instead = reading.as<Field>(other);
    const auto value = instead == nullptr ? std::nullopt : number_everywhere(*instead);
    if (!value) return unknown(node, "puts something unknown in the place of scores");
    if (const auto* nan = reading.as<SharesAreNaN>(node.inputs[0])) {
      if (!is_second || nan->of != reading.origin(rows) || *value != 0 || scores->stage != Scores::Stage::shares) {
        return unknown(node, "puts something else than 0 in the place of shares");
      }
      Scores with = *scores;
      if (with.mask) with.mask->keys.nothing_if_all = true;
      return with;
    }
    const auto* condition = reading.as<Field>(node.inputs[0]);
    const auto mask =
        condition == nullptr || scores->order != "bhsk" ? std::nullopt : mask_of(*condition, 4, 0, 3, reading);
    if (!mask || scores->stage != Scores::Stage::raw) return unknown(node, "chooses among scores by something unknown");
    const bool keeps_counted = (mask->counted != 0) != is_second, keeps_hidden = (mask->hidden != 0) != is_second;
    if (keeps_counted && keeps_hidden) return *scores;
    if (!keeps_counted || !(*value < largest_of_hidden) || scores->mask || mask->input.empty()) {
      return unknown(node, "does not hide scores as a mask over keys does");
    }
    Scores with = *scores;
    with.mask = FoundMask{mask->input, {static_cast<float>(*value), true, false}, false};
    return with;
  }
  return Unknown{};
}

// com.microsoft: a mask of [texts, keys], or how many of each text's tokens count.
std::optional<Scores> with_padding(const Scores& scores, const std::string& name, const Node& node,
                                   const Reading& reading) {
  const auto value = node.attributes.find("mask_filter_value");
  const float hidden = value == node.attributes.end() ? -10000.0F : value->second.number;
  if (!(static_cast<double>(hidden) < largest_of_hidden) || scores.mask) return std::nullopt;
  Scores with = scores;
  if (const auto* tokens = reading.as<TokenCount>(name)) {
    if (tokens->order != "b" || tokens->is_guarded) return std::nullopt;
    with.mask = FoundMask{tokens->mask, {hidden, false, false}, true};
    return with;
  }
  const auto* field = reading.as<Field>(name);
  if (field == nullptr || field->shape != Shape{reading.texts, reading.tokens}) return std::nullopt;
  const auto mask = mask_of(*field, 2, 0, 1, reading);
  if (!mask || !(mask->counted > 0)) return std::nullopt;
  if (mask->hidden > 0) return scores;
  with.mask = FoundMask{mask->input, {hidden, false, false}, false};
  return with;
}

struct Three {
  Heads query, key, value;
};

// What nodes for a whole attention share: scores, what is added to them, shares, and the mixed values.
Meaning attended(const Node& node, const Reading& reading, const Three& heads, const std::string& padding,
                 const std::string& added, std::string order) {
  auto scores = scores_of(heads.query, heads.key, "bhsk");
  if (!scores) return unknown(node, "is not over queries and keys of the same rows");
  const double width = static_cast<double>(columns_of(heads.query)) / static_cast<double>(heads.query.heads);
  const auto given = node.attributes.find("scale");
  const bool has_scale = given != node.attributes.end() && given->second.number != 0;
  scores->scale *= has_scale ? static_cast<double>(given->second.number) : 1 / std::sqrt(width);
  if (!added.empty()) {
    const auto* field = reading.as<Field>(added);
    std::string why = "adds something unknown to scores";
    const auto with = field == nullptr ? std::nullopt : with_added(*scores, *field, reading, why);
    if (!with) return unknown(node, why);
    scores = with;
  }
  if (!padding.empty()) {
    scores = with_padding(*scores, padding, node, reading);
    if (!scores) return unknown(node, "has a mask that is not of texts and tokens");
  }
  scores->stage = Scores::Stage::shares;
  return mixed(node, *scores, heads.value, std::move(order));
}

std::string given(const Node& node, std::size_t index) {
  return index < node.inputs.size() ? node.inputs[index] : std::string();
}

bool is_given_from(const Node& node, std::size_t first) {
  for (std::size_t i = first; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].empty()) return true;
  }
  return false;
}

// com.microsoft: rows, weights of query, key and value beside each other, bias, mask, past, what is added.
Meaning whole_attention(const Node& node, const Reading& reading) {
  const auto* hidden = reading.as<Hidden>(given(node, 0));
  const Constant* weights = reading.weights(given(node, 1), 2);
  if (hidden == nullptr || weights == nullptr || hidden->order != "bsw") return Unknown{};
  const auto heads = static_cast<std::size_t>(std::max<std::int64_t>(integer(node, "num_heads", 0), 0));
  const auto sizes = node.attributes.find("qkv_hidden_sizes");
  const auto width = static_cast<std::int64_t>(reading.width);
  const bool is_even = sizes == node.attributes.end() || sizes->second.integers.empty() ||
                       sizes->second.integers == std::vector<std::int64_t>{width, width, width};
  const bool is_plain = integer(node, "unidirectional", 0) == 0 && integer(node, "do_rotary", 0) == 0 &&
                        integer(node, "past_present_share_buffer", 0) == 0 && given(node, 4).empty() &&
                        given(node, 6).empty();
  if (!is_even || !is_plain || heads == 0 || reading.width % heads != 0 ||
      weights->shape != std::vector<std::int64_t>{width, 3 * width}) {
    return unknown(node, "is of a kind that is not understood");
  }
  auto all = product_of(reading, given(node, 0), {weights, false, 0, 3 * reading.width, nullptr, 0});
  if (all && !given(node, 2).empty()) {
    const Constant* bias = reading.weights(given(node, 2), 1);
    all = bias == nullptr ? std::nullopt : with_bias(*all, *bias);
  }
  if (!all) return unknown(node, "has a bias that does not fit");
  std::vector<Heads> three;
  for (std::size_t part = 0; part < 3; ++part) {
    Product product = *all;
    product.linear.first_column = product.linear.first_bias = part * reading.width;
    product.linear.columns = reading.width;
    three.push_back({product, heads, 1, "bhsd", 1});
  }
  return attended(node, reading, {three[0], three[1], three[2]}, given(node, 3), given(node, 5), "bsw");
}

std::optional<Heads> heads_of(const Reading& reading, const std::string& rows, std::size_t heads) {
  const auto* product = reading.as<Product>(rows);
  const auto* scaled = reading.as<Elementwise>(rows);
  if ((product == nullptr && scaled == nullptr) || heads == 0) return std::nullopt;
  const Product& from = product != nullptr ? *product : scaled->product;
  const auto factor = product != nullptr ? std::optional(1.0) : factor_of(*scaled->function);
  if (!factor || from.of != Product::Of::hidden || from.order != "bsw" || from.linear.columns % heads != 0) {
    return std::nullopt;
  }
  return Heads{from, heads, 1, "bhsd", *factor};
}

// com.microsoft: query, key, value, bias, mask over keys, what is added.
Meaning several_heads(const Node& node, const Reading& reading) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(integer(node, "num_heads", 0), 0));
  std::vector<Heads> three;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto one = heads_of(reading, given(node, i), count);
    if (!one) return Unknown{};
    three.push_back(*one);
  }
  if (is_given_from(node, 6) || integer(node, "unidirectional", 0) != 0) {
    return unknown(node, "is of a kind that is not understood");
  }
  if (!given(node, 3).empty()) {
    const Constant* bias = reading.weights(given(node, 3), 1);
    const std::size_t columns = columns_of(three[0]);
    for (std::size_t i = 0; i < 3; ++i) {
      FoundLinear& linear = three[i].product.linear;
      if (bias == nullptr || bias->count() != 3 * columns || linear.columns != columns || linear.bias != nullptr ||
          three[i].scale != 1) {
        return unknown(node, "has a bias that does not fit");
      }
      linear.bias = bias;
      linear.first_bias = i * columns;
    }
  }
  return attended(node, reading, {three[0], three[1], three[2]}, given(node, 4), given(node, 5), "bsw");
}

// ONNX: query, key, value, mask.
Meaning onnx_attention(const Node& node, const Reading& reading) {
  const auto softcap = node.attributes.find("softcap");
  const bool is_plain = integer(node, "is_causal", 0) == 0 && !is_given_from(node, 4) &&
                        (softcap == node.attributes.end() || softcap->second.number == 0);
  std::vector<Heads> three;
  bool is_split = true;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string name = given(node, i);
    if (const auto* heads = reading.as<Heads>(name)) {
      if (heads->order != "bhsd") return unknown(node, "is over heads of another order");
      three.push_back(*heads);
      continue;
    }
    is_split = false;
    const std::int64_t count = integer(node, i == 0 ? "q_num_heads" : "kv_num_heads", 0);
    const auto one = heads_of(reading, name, static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    if (!one) return Unknown{};
    three.push_back(*one);
  }
  if (!is_plain) return unknown(node, "is of a kind that is not understood");
  std::string added = given(node, 3);
  const Three heads{three[0], three[1], three[2]};
  const std::string order = is_split ? "bhsd" : "bsw";
  const auto* mask = added.empty() ? nullptr : reading.as<Field>(added);
  // Where no key counts ONNX Runtime's shares are 0.
  constexpr HiddenKeys none{-std::numeric_limits<float>::infinity(), false, true};
  if (mask == nullptr || mask->element != Element::boolean) {
    Meaning mixed = attended(node, reading, heads, {}, added, order);
    if (auto* context = std::get_if<Context>(&mixed); context != nullptr && context->scores.mask) {
      HiddenKeys& keys = context->scores.mask->keys;
      if (keys.score <= std::numeric_limits<float>::lowest()) keys = none;
    }
    return mixed;
  }
  // A truth for each key that counts.
  const auto bits = mask->shape.size() <= 4 ? mask_of(*mask, 4, 0, 3, reading) : std::nullopt;
  if (!bits || bits->counted != 1) return unknown(node, "has a mask that is not over keys");
  const Meaning plain = attended(node, reading, heads, {}, {}, order);
  const auto* context = std::get_if<Context>(&plain);
  if (context == nullptr || bits->hidden == 1) return plain;
  Context with = *context;
  with.scores.mask = FoundMask{bits->input, none, false};
  return with;
}

}  // namespace

Meaning read_attention(const Node& node, const Reading& reading) {
  const std::string& type = node.type;
  const std::size_t count = node.inputs.size();
  if (count == 0) return Unknown{};
  const bool is_microsoft = node.domain == "com.microsoft";
  if (is_microsoft && type == "Attention") return whole_attention(node, reading);
  if (is_microsoft && type == "MultiHeadAttention") return several_heads(node, reading);
  if (count == 2 && (type == "MatMul" || (is_microsoft && type == "FusedMatMul"))) return matmul(node, reading);
  if (is_microsoft) return Unknown{};
  if (type == "Attention") return onnx_attention(node, reading);
  if (type == "Reshape" && count == 2) return reshape(node, reading);
  if (type == "Transpose") return transpose(node, reading);
  if (type == "Gather") return part_of(node, reading);
  if (type == "Add" && count == 2) return add(node, reading);
  if ((type == "Mul" || type == "Div") && count == 2) return scale(node, reading);
  if (type == "Softmax") return softmax(node, reading);
  if (type == "Where" && count == 3) return where(node, reading);
  if (type == "IsNaN") {
    const auto* scores = reading.as<Scores>(node.inputs[0]);
    if (scores != nullptr && scores->stage == Scores::Stage::shares)
      return SharesAreNaN{reading.origin(node.inputs[0])};
  }
  return Unknown{};
}

}  // namespace gpux_encoder
