// Attention of single operators: scores, masks and biases, softmax, context.
#include <algorithm>
#include <cmath>
#include <utility>

#include "recognizer/attention_scores.h"

namespace gpux_encoder {
namespace {

bool have_equal_shapes(const Heads& a, const Heads& b) {
  return a.num_heads == b.num_heads && a.parts == 1 && b.parts == 1 &&
         a.projection.hidden_index == b.projection.hidden_index && columns_of(a) == columns_of(b);
}

Fact matmul(const Node& node, const KnownFacts& facts) {
  const bool is_fused = node.domain == "com.microsoft";
  const auto alpha = node.attributes.find("alpha");
  const double factor = is_fused && alpha != node.attributes.end() ? static_cast<double>(alpha->second.number) : 1;
  const bool transposes = is_fused && integer(node, "transB", 0) != 0;
  if (is_fused && (integer(node, "transA", 0) != 0 || integer(node, "transBatchA", 0) != 0 ||
                   integer(node, "transBatchB", 0) != 0)) {
    return Unknown{};
  }
  const auto* right = facts.as<Heads>(node.inputs[1]);
  if (right == nullptr) return Unknown{};
  const AxisOrder order = transposes ? right->order.with_last_two_swapped() : right->order;
  if (const auto* query = facts.as<Heads>(node.inputs[0])) {
    const bool is_product =
        (query->order == axis_order::batch_heads_sequence_size && order == axis_order::batch_heads_size_sequence) ||
        (query->order == axis_order::merged_heads_sequence_size && order == axis_order::merged_heads_size_sequence);
    auto scores = is_product ? scores_of(*query, *right,
                                         query->order == axis_order::merged_heads_sequence_size
                                             ? axis_order::merged_heads_query_key
                                             : axis_order::batch_heads_query_key)
                             : std::nullopt;
    if (!scores) return unknown(node, "multiplies heads that are not queries and keys of the same hidden states");
    scores->scale *= factor;
    return *scores;
  }
  if (const auto* scores = facts.as<AttentionScores>(node.inputs[0])) {
    if (scores->stage != AttentionScores::Stage::probabilities)
      return unknown(node, "multiplies values by something else than attention probabilities");
    const bool fits =
        (scores->order == axis_order::batch_heads_query_key && order == axis_order::batch_heads_sequence_size) ||
        (scores->order == axis_order::merged_heads_query_key && order == axis_order::merged_heads_sequence_size);
    if (!fits || factor != 1) return unknown(node, "multiplies values of another axis order");
    return context_of(node, *scores, *right, order);
  }
  return Unknown{};
}

SymbolicTensor over_scores(const ExpressionPointer& at, const KnownFacts& facts, std::size_t num_heads) {
  return {{facts.batch, {Dimension::Kind::fixed, static_cast<std::int64_t>(num_heads)}, facts.sequence, facts.sequence},
          ElementType::float32,
          at};
}

Fact add(const Node& node, const KnownFacts& facts) {
  for (const auto& [first, second] : {std::pair{0, 1}, {1, 0}}) {
    const auto* scores = facts.as<AttentionScores>(node.inputs[static_cast<std::size_t>(first)]);
    const auto* added = facts.as<SymbolicTensor>(node.inputs[static_cast<std::size_t>(second)]);
    if (scores == nullptr) continue;
    if (added == nullptr) return unknown(node, "adds something unknown to scores");
    std::string why;
    const auto with = with_added(*scores, *added, facts, why);
    return with ? Fact(*with) : unknown(node, why);
  }
  return Unknown{};
}

Fact scale(const Node& node, const KnownFacts& facts) {
  for (const auto& [value, other] : {std::pair{0, 1}, {1, 0}}) {
    if (node.type == "Div" && value == 1) break;
    const std::string& rows = node.inputs[static_cast<std::size_t>(value)];
    const auto* heads = facts.as<Heads>(rows);
    const auto* scores = facts.as<AttentionScores>(rows);
    if (heads == nullptr && scores == nullptr) continue;
    const auto number = facts.scalar(node.inputs[static_cast<std::size_t>(other)], 3);
    if (!number || *number == 0 || !std::isfinite(*number)) {
      return unknown(node, "scales heads or scores by an unknown factor");
    }
    const double factor = node.type == "Div" ? 1 / *number : *number;
    if (heads != nullptr) {
      Heads with = *heads;
      with.scale *= factor;
      return with;
    }
    if (scores->mask || scores->position_bias || scores->stage != AttentionScores::Stage::raw) {
      return unknown(node, "scales scores after their mask");
    }
    AttentionScores with = *scores;
    with.scale *= factor;
    return with;
  }
  return Unknown{};
}

Fact softmax(const Node& node, const KnownFacts& facts) {
  const auto* scores = facts.as<AttentionScores>(node.inputs[0]);
  if (scores == nullptr) return Unknown{};
  // Before version 13, the default was all axes from the second on.
  const std::int64_t axis = integer(node, "axis", node.version < 13 ? 1 : -1);
  const auto last = static_cast<std::int64_t>(scores->order.rank()) - 1;
  if (scores->stage != AttentionScores::Stage::raw || (axis != -1 && axis != last)) {
    return unknown(node, "is not over the keys");
  }
  AttentionScores with = *scores;
  with.stage = AttentionScores::Stage::probabilities;
  return with;
}

std::optional<double> uniform_value(const SymbolicTensor& tensor) {
  return tensor.shape.size() <= 4 ? literal_value(broadcast_to(tensor, 4)) : std::nullopt;
}

// Scores whose masked keys are replaced by a constant, or probabilities that are 0 instead of NaN.
Fact where(const Node& node, const KnownFacts& facts) {
  for (const bool is_second : {false, true}) {
    const std::string &rows = node.inputs[is_second ? 2 : 1], &other = node.inputs[is_second ? 1 : 2];
    const auto* scores = facts.as<AttentionScores>(rows);
    if (scores == nullptr) continue;
    const auto* instead = facts.as<SymbolicTensor>(other);
    const auto value = instead == nullptr ? std::nullopt : uniform_value(*instead);
    if (!value) return unknown(node, "replaces scores by something unknown");
    if (const auto* nan = facts.as<ProbabilitiesAreNaN>(node.inputs[0])) {
      if (!is_second || nan->of != facts.origin(rows) || *value != 0 ||
          scores->stage != AttentionScores::Stage::probabilities) {
        return unknown(node, "replaces probabilities by something else than 0");
      }
      AttentionScores with = *scores;
      if (with.mask) with.mask->keys.zero_if_all_masked = true;
      return with;
    }
    const auto* condition = facts.as<SymbolicTensor>(node.inputs[0]);
    const auto mask = condition == nullptr || scores->order != axis_order::batch_heads_query_key
                          ? std::nullopt
                          : mask_of(*condition, 4, 0, 3, facts);
    if (!mask || scores->stage != AttentionScores::Stage::raw)
      return unknown(node, "selects scores by something unknown");
    const bool keeps_counted = (mask->unmasked != 0) != is_second, keeps_hidden = (mask->masked != 0) != is_second;
    if (keeps_counted && keeps_hidden) return *scores;
    if (!keeps_counted || !(*value < max_masked_score) || scores->mask || mask->source.input.empty()) {
      return unknown(node, "replaces scores by something else than a mask over keys");
    }
    AttentionScores with = *scores;
    with.mask = RecognizedMask{mask->source, {static_cast<float>(*value), true, false}, false};
    return with;
  }
  return Unknown{};
}

}  // namespace

std::size_t columns_of(const Heads& heads) {
  return heads.projection.linear.columns;
}

std::optional<double> factor_of(const Expression& function) {
  const bool is_scaled = function.is(Operation::multiply) || function.is(Operation::divide);
  if (!is_scaled || function.arguments[0]->kind != Expression::Kind::input) return std::nullopt;
  const auto number = literal_value(function.arguments[1]);
  if (!number || *number == 0) return std::nullopt;
  return function.is(Operation::divide) ? 1 / *number : *number;
}

std::optional<AttentionScores> scores_of(const Heads& query, const Heads& key, AxisOrder order) {
  if (!have_equal_shapes(query, key)) return std::nullopt;
  return AttentionScores{query.projection,
                         key.projection,
                         query.num_heads,
                         query.scale * key.scale,
                         {},
                         {},
                         AttentionScores::Stage::raw,
                         order};
}

Fact context_of(const Node& node, const AttentionScores& scores, const Heads& value, AxisOrder order) {
  const bool fits = value.num_heads == scores.num_heads && value.scale == 1 && value.parts == 1 &&
                    value.projection.hidden_index == scores.query.hidden_index &&
                    columns_of(value) == scores.query.linear.columns;
  if (!fits) return unknown(node, "multiplies values that do not belong to the scores");
  return Context{scores, value.projection, order};
}

std::optional<AttentionScores> with_added(const AttentionScores& scores, const SymbolicTensor& added,
                                          const KnownFacts& facts, std::string& why) {
  const auto refuse = [&](const char* reason) {
    why = reason;
    return std::nullopt;
  };
  const bool fits = added.shape.size() <= 4 &&
                    broadcast(added.shape, {facts.batch,
                                            {Dimension::Kind::fixed, static_cast<std::int64_t>(scores.num_heads)},
                                            facts.sequence,
                                            facts.sequence});
  if (!fits || scores.stage != AttentionScores::Stage::raw || scores.order != axis_order::batch_heads_query_key) {
    return refuse("adds something of another shape to scores");
  }
  AttentionScores with = scores;
  for (const ExpressionPointer& term : terms_of(broadcast_to(added, 4))) {
    const SymbolicTensor tensor = over_scores(term, facts, scores.num_heads);
    if (const auto mask = mask_of(tensor, 4, 0, 3, facts)) {
      if (mask->unmasked == 0 && mask->masked == 0) continue;
      if (mask->unmasked != 0 || !(mask->masked < max_masked_score) || mask->source.input.empty()) {
        return refuse("adds a mask to scores that does more than hide keys");
      }
      if (with.mask) return refuse("adds a second mask to scores");
      with.mask = RecognizedMask{mask->source, {static_cast<float>(mask->masked), false, false}, false};
      continue;
    }
    const bool is_position_bias = !contains(*term, [](const Expression& one) {
      return one.kind == Expression::Kind::input || one.kind == Expression::Kind::cumulative_sum ||
             one.kind == Expression::Kind::dimension || is_axis_index(std::make_shared<const Expression>(one), 0);
    });
    if (!is_position_bias)
      return refuse("adds something to scores that is neither a mask over keys nor a position bias");
    if (with.position_bias || (with.mask && with.mask->keys.replaces)) return refuse("adds a second position bias");
    with.position_bias = tensor;
  }
  return with;
}

Fact derive_attention(const Node& node, const KnownFacts& facts) {
  const std::string& type = node.type;
  const std::size_t count = node.inputs.size();
  const bool is_microsoft = node.domain == "com.microsoft";
  if (count == 2 && (type == "MatMul" || (is_microsoft && type == "FusedMatMul"))) return matmul(node, facts);
  if (is_microsoft || count == 0) return Unknown{};
  if (type == "Add" && count == 2) return add(node, facts);
  if ((type == "Mul" || type == "Div") && count == 2) return scale(node, facts);
  if (type == "Softmax") return softmax(node, facts);
  if (type == "Where" && count == 3) return where(node, facts);
  if (type == "IsNaN") {
    const auto* scores = facts.as<AttentionScores>(node.inputs[0]);
    if (scores != nullptr && scores->stage == AttentionScores::Stage::probabilities)
      return ProbabilitiesAreNaN{facts.origin(node.inputs[0])};
  }
  return Unknown{};
}

}  // namespace gpux_encoder
