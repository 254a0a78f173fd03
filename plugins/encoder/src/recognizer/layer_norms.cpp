// Layer normalization: one node, fused with a residual sum or with the embeddings, or single operators.
#include <algorithm>
#include <tuple>
#include <utility>

#include "recognizer/known_facts.h"

namespace gpux_encoder {
namespace {

using Stage = LayerNormStep::Stage;

float epsilon_of(const Node& node, float otherwise) {
  const auto given = node.attributes.find("epsilon");
  return given == node.attributes.end() ? otherwise : given->second.number;
}

bool fits(const RecognizedLinear& linear, std::size_t inner, std::size_t columns) {
  return linear.weights != nullptr && linear.inner() == inner && linear.columns == columns;
}

// Checks what the forward pass relies on; returns an error, or an empty string.
std::string wrong_with(const RecognizedLayer& layer, std::size_t hidden_size, std::size_t num_heads) {
  if (num_heads == 0 || hidden_size % num_heads != 0)
    return "has a hidden size that is not a multiple of the number of heads";
  for (const RecognizedLinear* linear : {&layer.query, &layer.key, &layer.value, &layer.attention_output}) {
    if (!fits(*linear, hidden_size, hidden_size)) return "follows attention of another hidden size than the embeddings";
  }
  return {};
}

Fact attended(const Node& node, const ResidualSum& sum, const RecognizedLayerNorm& norm, const KnownFacts& facts,
              RecognizedEncoder& found) {
  const Projection& projection = sum.projection;
  const AttentionScores& scores = projection.context->scores;
  const std::size_t layer = sum.residual / 2;
  if (found.layers.size() != layer) return unknown(node, "is a second layer normalization of the same values");
  const RecognizedMask mask = scores.mask.value_or(RecognizedMask{});
  const ExpressionPointer relative = scores.position_bias ? broadcast_to(*scores.position_bias, 4) : nullptr;
  if (layer == 0) {
    found.num_heads = scores.num_heads;
    found.mask = mask;
    found.position_bias = relative;
  }
  const bool has_same_relative = (relative == nullptr) == (found.position_bias == nullptr) &&
                                 (relative == nullptr || same(*relative, *found.position_bias));
  if (found.num_heads != scores.num_heads || !(found.mask == mask) || !has_same_relative) {
    return unknown(node, "follows attention whose heads, mask or position bias differ from the first layer's");
  }
  RecognizedLayer result{.query = scores.query.linear,
                         .key = scores.key.linear,
                         .value = projection.context->value.linear,
                         .attention_output = projection.linear,
                         .up_projection = {},
                         .down_projection = {},
                         .attention_layer_norm = norm,
                         .output_layer_norm = {},
                         .score_scale = static_cast<float>(scores.scale)};
  if (std::string wrong = wrong_with(result, facts.hidden_size, scores.num_heads); !wrong.empty())
    return unknown(node, wrong);
  found.layers.push_back(result);
  return HiddenStates{sum.residual + 1, sum.order};
}

Fact fed_forward(const Node& node, const ResidualSum& sum, const RecognizedLayerNorm& norm, const KnownFacts& facts,
                 RecognizedEncoder& found) {
  const Projection& projection = sum.projection;
  if (found.layers.size() != sum.residual / 2 + 1 || found.layers.back().down_projection.weights != nullptr) {
    return unknown(node, "is a second layer normalization of the same values");
  }
  if (!fits(projection.up_projection, facts.hidden_size, projection.up_projection.columns) ||
      !fits(projection.linear, projection.up_projection.columns, facts.hidden_size)) {
    return unknown(node, "follows a feed-forward layer of another hidden size than the embeddings");
  }
  RecognizedLayer& layer = found.layers.back();
  layer.up_projection = projection.up_projection;
  layer.down_projection = projection.linear;
  layer.activation = projection.activation;
  layer.output_layer_norm = norm;
  return HiddenStates{sum.residual + 1, sum.order};
}

// The output of a layer normalization of any form.
Fact normalized(const Node& node, const Fact& before, const std::string& gamma, const std::string& beta, float epsilon,
                KnownFacts& facts, RecognizedEncoder& found) {
  const Constant *scale = facts.weights(gamma, 1), *shift = facts.weights(beta, 1);
  if (scale == nullptr || shift == nullptr || scale->count() != shift->count()) {
    return unknown(node, "has no scale and shift of its own");
  }
  const RecognizedLayerNorm norm{scale, shift, epsilon};
  const auto has_size = [&](std::size_t hidden_size) { return scale->count() == hidden_size; };
  if (const auto* tensor = std::get_if<SymbolicTensor>(&before)) {
    if (found.embeddings.word_embeddings.rows != nullptr)
      return unknown(node, "is a second layer normalization of embeddings");
    std::string why;
    const auto embeddings = embeddings_of(*tensor, facts, why);
    if (!embeddings) return unknown(node, why);
    if (!has_size(embeddings->word_embeddings.hidden_size()))
      return unknown(node, "has another size than the embeddings");
    found.embeddings = *embeddings;
    found.embedding_layer_norm = norm;
    facts.hidden_size = embeddings->word_embeddings.hidden_size();
    facts.input_ids = embeddings->input_ids;
    facts.vocabulary_size = embeddings->word_embeddings.rows->count() / facts.hidden_size;
    return HiddenStates{0, axis_order::batch_sequence_hidden};
  }
  const auto* sum = std::get_if<ResidualSum>(&before);
  if (sum == nullptr) return unknown(node, "is not over embeddings or a residual sum");
  if (!has_size(facts.hidden_size)) return unknown(node, "has another size than the embeddings");
  if (sum->projection.hidden_index != sum->residual)
    return unknown(node, "is over a residual sum of two different layers");
  const bool is_attention = sum->residual % 2 == 0;
  if (is_attention && sum->projection.of == Projection::Of::context) return attended(node, *sum, norm, facts, found);
  if (!is_attention && sum->projection.of == Projection::Of::intermediate)
    return fed_forward(node, *sum, norm, facts, found);
  return unknown(node, "is at a position where an encoder has no layer normalization");
}

bool is_last_axis(const std::vector<std::int64_t>& axes) {
  return axes == std::vector<std::int64_t>{-1} || axes == std::vector<std::int64_t>{2};
}

bool is_normalisable(const Fact* fact) {
  const auto* tensor = fact == nullptr ? nullptr : std::get_if<SymbolicTensor>(fact);
  const bool is_rows = tensor != nullptr && tensor->shape.size() == 3 && tensor->element_type == ElementType::float32;
  return is_rows || (fact != nullptr && std::holds_alternative<ResidualSum>(*fact));
}

Fact whole(const Node& node, KnownFacts& facts, RecognizedEncoder& found) {
  const Fact* before = facts.find(node.inputs[0]);
  if (before == nullptr || !is_normalisable(before)) return Unknown{};
  const std::int64_t axis = integer(node, "axis", -1);
  const auto* sum = std::get_if<ResidualSum>(before);
  const std::int64_t last = sum != nullptr ? static_cast<std::int64_t>(sum->order.rank()) - 1 : 2;
  if (axis != -1 && axis != last) return unknown(node, "is not along the last axis");
  if (node.inputs.size() != 3) return unknown(node, "has no shift");
  return normalized(node, *before, node.inputs[1], node.inputs[2], epsilon_of(node, 1e-5F), facts, found);
}

std::optional<SymbolicTensor> sum_of(const SymbolicTensor& a, const SymbolicTensor& b) {
  return symbolic_tensor_of(
      Node{.name = {}, .type = "Add", .domain = {}, .inputs = {}, .outputs = {}, .attributes = {}}, {&a, &b});
}

// com.microsoft SkipLayerNormalization: input, skip, gamma, beta, bias.
Fact with_skip(const Node& node, KnownFacts& facts, RecognizedEncoder& found) {
  if (node.inputs.size() < 4) return Unknown{};
  for (const auto& [rows, skip] : {std::pair{0, 1}, {1, 0}}) {
    const auto* projection = facts.as<Projection>(node.inputs[static_cast<std::size_t>(rows)]);
    const auto* residual = facts.as<HiddenStates>(node.inputs[static_cast<std::size_t>(skip)]);
    if (projection == nullptr || residual == nullptr || projection->order != residual->order) continue;
    std::optional<Projection> biased = *projection;
    if (node.inputs.size() > 4 && !node.inputs[4].empty()) {
      const Constant* bias = facts.weights(node.inputs[4], 1);
      biased = bias == nullptr ? std::nullopt : with_bias(*projection, *bias);
      if (!biased) return unknown(node, "has a bias that does not fit");
    }
    return normalized(node, ResidualSum{*biased, residual->index, residual->order}, node.inputs[2], node.inputs[3],
                      epsilon_of(node, 1e-12F), facts, found);
  }
  const auto *rows = facts.as<SymbolicTensor>(node.inputs[0]), *skip = facts.as<SymbolicTensor>(node.inputs[1]);
  const bool has_bias = node.inputs.size() > 4 && !node.inputs[4].empty();
  const auto sum = rows == nullptr || skip == nullptr || has_bias ? std::nullopt : sum_of(*rows, *skip);
  if (!sum || sum->shape != rows->shape) return Unknown{};
  return normalized(node, *sum, node.inputs[2], node.inputs[3], epsilon_of(node, 1e-12F), facts, found);
}

// com.microsoft EmbedLayerNormalization: input_ids, segment_ids, word_embedding, position_embedding,
// segment_embedding, gamma, beta, mask, position_ids.
Fact with_embeddings(const Node& node, KnownFacts& facts, RecognizedEncoder& found) {
  const auto tensor = [&](std::size_t index) {
    return index < node.inputs.size() && !node.inputs[index].empty() ? facts.as<SymbolicTensor>(node.inputs[index])
                                                                     : nullptr;
  };
  const auto is_given = [&](std::size_t index) { return index < node.inputs.size() && !node.inputs[index].empty(); };
  if (node.inputs.size() < 7) return Unknown{};
  const Node gather{.name = node.name, .type = "Gather", .domain = "", .inputs = {}, .outputs = {}, .attributes = {}};
  const SymbolicTensor token_positions{{facts.sequence}, ElementType::int64, axis_index(0)};
  const SymbolicTensor* positions = is_given(8) ? tensor(8) : &token_positions;
  std::optional<SymbolicTensor> sum;
  for (const auto& [table, rows, may_lack] :
       {std::tuple{tensor(2), tensor(0), false}, {tensor(3), positions, false}, {tensor(4), tensor(1), true}}) {
    if (may_lack && !is_given(1) && !is_given(4)) continue;
    if (table == nullptr || rows == nullptr) return unknown(node, "takes rows of unknown tables");
    const auto taken = symbolic_tensor_of(gather, {table, rows});
    if (!taken) return unknown(node, "takes rows of unknown tables");
    sum = sum ? sum_of(*sum, *taken) : taken;
    if (!sum) return unknown(node, "adds rows that do not fit");
  }
  if (!sum) return Unknown{};
  Fact rows = normalized(node, *sum, node.inputs[5], node.inputs[6], epsilon_of(node, 1e-12F), facts, found);
  if (const SymbolicTensor* mask = tensor(7); mask != nullptr && node.outputs.size() > 1 && mask->shape.size() == 2) {
    const auto bits = mask_of(*mask, 2, 0, 1, facts);
    const bool fits = mask->shape == Shape{facts.batch, facts.sequence};
    if (fits && bits && bits->unmasked == 1 && bits->masked == 0) {
      facts.set(node.outputs[1], TokenCount{bits->source, axis_order::batch, false});
    }
  }
  return rows;
}

// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * gamma + beta, as single operators.
Fact mean(const Node& node, const KnownFacts& facts) {
  const auto axes = facts.axes(node);
  if (!axes || integer(node, "keepdims", 1) != 1) return Unknown{};
  const std::string& of = facts.origin(node.inputs[0]);
  const auto* sum = facts.as<ResidualSum>(of);
  const bool is_last = is_last_axis(*axes) || (sum != nullptr && axes->size() == 1 &&
                                               axes->front() == static_cast<std::int64_t>(sum->order.rank()) - 1);
  if (!is_last) return Unknown{};
  if (const auto* step = facts.as<LayerNormStep>(of); step != nullptr && step->stage == Stage::squared) {
    LayerNormStep next = *step;
    next.stage = Stage::variance;
    return next;
  }
  return is_normalisable(facts.find(of)) ? Fact(LayerNormStep{Stage::mean, of, 0, {}}) : Fact(Unknown{});
}

Fact advanced(const LayerNormStep& step, Stage stage) {
  LayerNormStep next = step;
  next.stage = stage;
  return next;
}

Fact step_by_one(const Node& node, const KnownFacts& facts) {
  const auto* step = facts.as<LayerNormStep>(node.inputs[0]);
  if (step == nullptr) return Unknown{};
  if (node.type == "Sqrt" && step->stage == Stage::guarded) return advanced(*step, Stage::deviation);
  if (node.type == "Reciprocal" && step->stage == Stage::deviation) return advanced(*step, Stage::inverse);
  return Unknown{};
}

Fact step_by_two(const Node& node, KnownFacts& facts, RecognizedEncoder& found) {
  const std::string &left = node.inputs[0], &right = node.inputs[1];
  const auto *a = facts.as<LayerNormStep>(left), *b = facts.as<LayerNormStep>(right);
  const auto are = [&](Stage first, Stage second) {
    return a != nullptr && b != nullptr && a->stage == first && b->stage == second && a->of == b->of;
  };
  const auto is = [](const LayerNormStep* step, Stage stage) { return step != nullptr && step->stage == stage; };
  if (node.type == "Sub" && is(b, Stage::mean) && facts.origin(left) == b->of) return advanced(*b, Stage::centered);
  if (node.type == "Pow" && is(a, Stage::centered) && facts.scalar(right) == 2.0) return advanced(*a, Stage::squared);
  if (node.type == "Mul" && are(Stage::centered, Stage::centered)) return advanced(*a, Stage::squared);
  if (node.type == "Div" && are(Stage::centered, Stage::deviation)) return advanced(*b, Stage::normal);
  if (node.type == "Div" && is(b, Stage::deviation) && facts.scalar(left) == 1.0) {
    return advanced(*b, Stage::inverse);
  }
  if (node.type == "Mul" && are(Stage::centered, Stage::inverse)) return advanced(*b, Stage::normal);
  if (node.type == "Mul" && are(Stage::inverse, Stage::centered)) return advanced(*a, Stage::normal);
  for (const auto& [step, other] : {std::pair{a, &right}, {b, &left}}) {
    if (node.type == "Add" && is(step, Stage::variance)) {
      const auto epsilon = facts.scalar(*other);
      if (!epsilon || !(*epsilon > 0)) return unknown(node, "adds an unknown epsilon to a variance");
      LayerNormStep next = *step;
      next.stage = Stage::guarded;
      next.epsilon = *epsilon;
      return next;
    }
    if (node.type == "Mul" && is(step, Stage::normal)) {
      LayerNormStep next = *step;
      next.stage = Stage::scaled;
      next.gamma = *other;
      return next;
    }
    if (node.type == "Add" && is(step, Stage::scaled)) {
      const Fact* before = facts.find(step->of);
      return normalized(node, Fact(*before), step->gamma, *other, static_cast<float>(step->epsilon), facts, found);
    }
  }
  return Unknown{};
}

}  // namespace

Fact derive_layer_norm(const Node& node, KnownFacts& facts, RecognizedEncoder& found) {
  if (node.inputs.empty()) return Unknown{};
  const bool is_microsoft = node.domain == "com.microsoft";
  if (is_microsoft && node.type == "SkipLayerNormalization") return with_skip(node, facts, found);
  if (is_microsoft && node.type == "EmbedLayerNormalization") return with_embeddings(node, facts, found);
  if (is_microsoft) return Unknown{};
  if (node.type == "LayerNormalization") return whole(node, facts, found);
  if (node.type == "ReduceMean") return mean(node, facts);
  if (node.inputs.size() == 1) return step_by_one(node, facts);
  return node.inputs.size() == 2 ? step_by_two(node, facts, found) : Fact(Unknown{});
}

}  // namespace gpux_encoder
