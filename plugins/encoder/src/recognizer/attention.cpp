// Attention in steps: scores of queries and keys, what a mask makes of them, shares, and what is mixed by them.
#include <algorithm>
#include <cmath>
#include <utility>

#include "recognizer/attention_scores.h"

namespace gpux_encoder {
namespace {

bool are_alike(const Heads& a, const Heads& b) {
  return a.heads == b.heads && a.parts == 1 && b.parts == 1 && a.product.hidden == b.product.hidden &&
         columns_of(a) == columns_of(b);
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
    if (!keeps_counted || !(*value < largest_of_hidden) || scores->mask || mask->source.input.empty()) {
      return unknown(node, "does not hide scores as a mask over keys does");
    }
    Scores with = *scores;
    with.mask = FoundMask{mask->source, {static_cast<float>(*value), true, false}, false};
    return with;
  }
  return Unknown{};
}

}  // namespace

std::size_t columns_of(const Heads& heads) {
  return heads.product.linear.columns;
}

std::optional<double> factor_of(const Expression& function) {
  const bool is_scaled = function.is(Operation::multiply) || function.is(Operation::divide);
  if (!is_scaled || function.arguments[0]->kind != Expression::Kind::input) return std::nullopt;
  const auto number = number_of(function.arguments[1]);
  if (!number || *number == 0) return std::nullopt;
  return function.is(Operation::divide) ? 1 / *number : *number;
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
      if (mask->counted != 0 || !(mask->hidden < largest_of_hidden) || mask->source.input.empty()) {
        return refuse("adds a mask to scores that does not hide keys, and nothing else");
      }
      if (with.mask) return refuse("adds a second mask to scores");
      with.mask = FoundMask{mask->source, {static_cast<float>(mask->hidden), false, false}, false};
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

Meaning read_attention(const Node& node, const Reading& reading) {
  const std::string& type = node.type;
  const std::size_t count = node.inputs.size();
  const bool is_microsoft = node.domain == "com.microsoft";
  if (count == 2 && (type == "MatMul" || (is_microsoft && type == "FusedMatMul"))) return matmul(node, reading);
  if (is_microsoft || count == 0) return Unknown{};
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
