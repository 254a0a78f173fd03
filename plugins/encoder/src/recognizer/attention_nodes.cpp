// Attention in one node: ONNX's own, and those of com.microsoft; RotaryEmbedding.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "recognizer/known_facts.h"

namespace gpux_cpu::encoder {
namespace {

/// A mask adds at most this to the score of a masked key.
constexpr double max_masked_score = -9999;

std::string name_of_input(const Node& node, std::size_t index) {
  return index < node.inputs.size() ? node.inputs[index] : std::string();
}

bool is_given_from(const Node& node, std::size_t first) {
  for (std::size_t i = first; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].empty()) return true;
  }
  return false;
}

std::size_t count_of(const Node& node, const char* name) {
  return static_cast<std::size_t>(std::max<std::int64_t>(integer(node, name, 0), 0));
}

/// Vectors of heads as expressions of [text, head, token, column].
struct Heads {
  ExpressionPointer expression;
  std::size_t num_heads = 0, head_size = 0;
};

// Rows of [batch, sequence, heads * size], or heads of [batch, heads, sequence, size].
std::optional<Heads> heads_of(const SymbolicTensor& tensor, std::size_t num_heads, const KnownFacts& facts) {
  if (tensor.shape.empty() || tensor.shape.back().kind != Dimension::Kind::fixed) return std::nullopt;
  const auto last = static_cast<std::size_t>(tensor.shape.back().value);
  if (tensor.shape.size() == 4) {
    const Dimension& heads = tensor.shape[1];
    if (heads.kind != Dimension::Kind::fixed || tensor.shape[0] != facts.batch || tensor.shape[2] != facts.sequence)
      return std::nullopt;
    return Heads{tensor.expression, static_cast<std::size_t>(heads.value), last};
  }
  if (tensor.shape.size() != 3 || num_heads == 0 || last % num_heads != 0) return std::nullopt;
  const auto split = reshaped(tensor, {facts.batch, facts.sequence, fixed(static_cast<std::int64_t>(num_heads)),
                                       fixed(static_cast<std::int64_t>(last / num_heads))});
  if (!split) return std::nullopt;
  return Heads{substitute(split->expression, {axis_index(0), axis_index(2), axis_index(1), axis_index(3)}), num_heads,
               last / num_heads};
}

// Each head as often as there are query heads for it.
bool repeat(Heads& heads, std::size_t num_heads) {
  if (heads.num_heads == 0 || num_heads % heads.num_heads != 0) return false;
  const std::size_t repeats = num_heads / heads.num_heads;
  if (repeats != 1) {
    const ExpressionPointer source = apply(Operation::divide, ElementType::int64,
                                           {axis_index(1), literal(static_cast<double>(repeats), ElementType::int64)});
    heads.expression = substitute(heads.expression, {nullptr, source});
    heads.num_heads = num_heads;
  }
  return true;
}

struct QueryKeyValue {
  Heads query, key, value;
};

// Scores of queries and keys, times the node's scale.
std::optional<AttentionScores> scores_of_node(const Node& node, QueryKeyValue& heads, const KnownFacts& facts,
                                              std::string& why) {
  const std::size_t num_heads = heads.query.num_heads;
  why = "is not over queries and keys of the same rows";
  if (heads.query.head_size != heads.key.head_size || heads.key.num_heads != heads.value.num_heads ||
      !repeat(heads.key, num_heads) || !repeat(heads.value, num_heads)) {
    return std::nullopt;
  }
  const auto query = head_vectors_of(heads.query.expression, num_heads, heads.query.head_size, facts, why);
  const auto key =
      query ? head_vectors_of(heads.key.expression, num_heads, heads.key.head_size, facts, why) : std::nullopt;
  if (!key) return std::nullopt;
  if (query->num_heads != num_heads) {
    why = "repeats the heads of queries";
    return std::nullopt;
  }
  AttentionScores scores;
  scores.query = *query;
  scores.key = *key;
  scores.num_heads = num_heads;
  const float given = number(node, "scale", 0);
  const double scale = given != 0 ? static_cast<double>(given) : 1 / std::sqrt(static_cast<double>(query->head_size));
  scores.scale = query->scale * key->scale * scale;
  return scores;
}

Fact context_of_node(const Node& node, const AttentionScores& scores, const Heads& value, bool is_by_head,
                     KnownFacts& facts) {
  std::string why;
  const auto vectors = head_vectors_of(value.expression, scores.num_heads, value.head_size, facts, why);
  if (!vectors) return unknown(node, why);
  if (vectors->rotary || vectors->norm || vectors->scale != 1)
    return unknown(node, "multiplies values that are more than projections of hidden states");
  const std::size_t index = facts.add(Context{scores, *vectors});
  const Dimension heads = fixed(static_cast<std::int64_t>(scores.num_heads)),
                  size = fixed(static_cast<std::int64_t>(value.head_size));
  const auto at = [&](std::size_t head, std::size_t token) {
    return computed_element(index, ElementType::float32,
                            {axis_index(0), axis_index(head), axis_index(token), axis_index(3)});
  };
  if (is_by_head) return SymbolicTensor{{facts.batch, heads, facts.sequence, size}, ElementType::float32, at(1, 2)};
  const SymbolicTensor by_token{{facts.batch, facts.sequence, heads, size}, ElementType::float32, at(2, 1)};
  const auto rows = reshaped(by_token, facts.rows_shape(scores.num_heads * value.head_size));
  return rows ? Fact(*rows) : unknown(node, "has an output of a shape that is not understood");
}

std::string add_tensor(AttentionScores& scores, const SymbolicTensor* added, const KnownFacts& facts) {
  const Shape all{facts.batch, fixed(static_cast<std::int64_t>(scores.num_heads)), facts.sequence, facts.sequence};
  if (added == nullptr) return "adds something unknown to scores";
  if (added->shape.size() > 4 || broadcast(added->shape, all) != all)
    return "adds something of another shape to scores";
  return add_to_scores(scores, broadcast_to(*added, 4), facts);
}

// com.microsoft: a mask of [batch, sequence], or the number of unmasked tokens of each text.
std::string add_padding(AttentionScores& scores, const SymbolicTensor* padding, const Node& node,
                        const KnownFacts& facts) {
  const float hidden = number(node, "mask_filter_value", -10000.0F);
  const char* const refused = "has a mask of another shape than [batch, sequence]";
  if (!(static_cast<double>(hidden) < max_masked_score) || scores.mask || padding == nullptr) return refused;
  const Expression& at = *padding->expression;
  if (padding->shape == Shape{facts.batch}) {
    const auto* count = at.kind == Expression::Kind::computed ? facts.as<TokenCount>(at.computed) : nullptr;
    if (count == nullptr) return refused;
    scores.mask = RecognizedMask{count->mask, {hidden, false, false}, true, false};
    return {};
  }
  if (padding->shape != Shape{facts.batch, facts.sequence}) return refused;
  const auto mask = mask_of(*padding, 2, 0, 1, facts);
  if (!mask || !(mask->unmasked > 0)) return refused;
  if (mask->masked > 0) return {};
  scores.mask = RecognizedMask{mask->source, {hidden, false, false}, false, false};
  return {};
}

// com.microsoft Attention and MultiHeadAttention, from their heads on.
Fact microsoft_attention(const Node& node, QueryKeyValue heads, std::size_t padding, std::size_t added,
                         KnownFacts& facts) {
  std::string why;
  auto scores = scores_of_node(node, heads, facts, why);
  if (!scores) return unknown(node, why);
  why.clear();
  if (!name_of_input(node, added).empty()) why = add_tensor(*scores, facts.input(node, added), facts);
  if (why.empty() && !name_of_input(node, padding).empty())
    why = add_padding(*scores, facts.input(node, padding), node, facts);
  if (!why.empty()) return unknown(node, why);
  if (integer(node, "unidirectional", 0) != 0) scores->right = 0;
  return context_of_node(node, *scores, heads.value, false, facts);
}

// com.microsoft Attention: input, weights of query, key and value, bias, mask_index, past, attention_bias.
Fact packed_attention(const Node& node, KnownFacts& facts) {
  const SymbolicTensor* rows = facts.input(node, 0);
  const Constant* weights = facts.weights(name_of_input(node, 1), 2);
  if (rows == nullptr || weights == nullptr || rows->shape.size() != 3) return Unknown{};
  const std::size_t num_heads = count_of(node, "num_heads");
  const auto sizes = node.attributes.find("qkv_hidden_sizes");
  const std::int64_t inner = weights->shape[0];
  const bool is_even = sizes == node.attributes.end() || sizes->second.integers.empty() ||
                       sizes->second.integers == std::vector<std::int64_t>{inner, inner, inner};
  const bool is_plain = integer(node, "do_rotary", 0) == 0 && integer(node, "past_present_share_buffer", 0) == 0 &&
                        name_of_input(node, 4).empty() && name_of_input(node, 6).empty();
  if (!is_even || !is_plain || num_heads == 0 || inner % static_cast<std::int64_t>(num_heads) != 0 ||
      weights->shape[1] != 3 * inner) {
    return unknown(node, "has attributes or inputs that are not supported");
  }
  std::string why;
  const auto columns = static_cast<std::size_t>(3 * inner);
  auto all = projected(*rows, {weights, false, 0, columns, nullptr, 0}, facts, why);
  if (!all) return unknown(node, why);
  if (!name_of_input(node, 2).empty()) {
    const Constant* bias = facts.weights(node.inputs[2], 1);
    all = bias == nullptr ? std::nullopt : with_bias(*all, *bias, facts);
    if (!all) return unknown(node, "has a bias that does not fit");
  }
  std::array<Heads, 3> parts;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    SymbolicTensor one = *all;
    one.shape.back() = fixed(inner);
    one.expression = substitute(
        one.expression,
        {nullptr, nullptr,
         apply(Operation::add, ElementType::int64,
               {axis_index(2), literal(static_cast<double>(part) * static_cast<double>(inner), ElementType::int64)})});
    const auto heads = heads_of(one, num_heads, facts);
    if (!heads) return unknown(node, "is over rows of another axis order");
    parts.at(part) = *heads;
  }
  return microsoft_attention(node, {parts[0], parts[1], parts[2]}, 3, 5, facts);
}

// com.microsoft MultiHeadAttention: query, key, value, bias, key_padding_mask, attention_bias.
Fact multi_head_attention(const Node& node, KnownFacts& facts) {
  const std::size_t num_heads = count_of(node, "num_heads");
  if (is_given_from(node, 6)) return unknown(node, "has attributes or inputs that are not supported");
  const Constant* bias = nullptr;
  if (!name_of_input(node, 3).empty()) {
    bias = facts.weights(node.inputs[3], 1);
    if (bias == nullptr) return unknown(node, "has a bias that does not fit");
  }
  std::array<Heads, 3> parts;
  std::size_t first_bias = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const SymbolicTensor* given = facts.input(node, i);
    if (given == nullptr) return Unknown{};
    SymbolicTensor tensor = *given;
    if (bias != nullptr) {
      // A part of the bias is that of one projection.
      const Expression* leaf = single_computed(*tensor.expression);
      const auto* before = leaf == nullptr ? nullptr : facts.as<Projection>(leaf->computed);
      std::string why;
      const bool fits = before != nullptr && before->linear.bias == nullptr &&
                        facts.rows_of(tensor, why) == leaf->computed &&
                        first_bias + before->linear.columns <= bias->count();
      if (!fits) return unknown(node, "has a bias that does not fit");
      Projection with = *before;
      with.linear.bias = bias;
      with.linear.first_bias = first_bias;
      first_bias += with.linear.columns;
      tensor = facts.whole_rows(facts.add(with));
    }
    const auto heads = heads_of(tensor, num_heads, facts);
    if (!heads) return unknown(node, "is over heads of another order");
    parts.at(i) = *heads;
  }
  if (bias != nullptr && first_bias != bias->count()) return unknown(node, "has a bias that does not fit");
  return microsoft_attention(node, {parts[0], parts[1], parts[2]}, 4, 5, facts);
}

// ONNX Attention: Q, K, V, attn_mask.
Fact onnx_attention(const Node& node, KnownFacts& facts) {
  if (is_given_from(node, 4) || number(node, "softcap", 0) != 0)
    return unknown(node, "has attributes or inputs that are not supported");
  std::array<Heads, 3> parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const SymbolicTensor* tensor = facts.input(node, i);
    if (tensor == nullptr) return Unknown{};
    const auto heads = heads_of(*tensor, count_of(node, i == 0 ? "q_num_heads" : "kv_num_heads"), facts);
    if (!heads) return unknown(node, "is over heads of another order");
    parts.at(i) = *heads;
  }
  QueryKeyValue heads{parts[0], parts[1], parts[2]};
  std::string why;
  auto scores = scores_of_node(node, heads, facts, why);
  if (!scores) return unknown(node, why);
  // If all keys are masked, ONNX Runtime's probabilities are 0.
  constexpr MaskedKeys none{-std::numeric_limits<float>::infinity(), false, true};
  if (const std::string added = name_of_input(node, 3); !added.empty()) {
    const SymbolicTensor* mask = facts.input(node, 3);
    if (mask != nullptr && mask->element_type == ElementType::boolean) {
      // True for each unmasked key.
      if (mask->shape.size() > 4) return unknown(node, "has a mask that is not over keys");
      why = replace_scores(*scores, broadcast_to(*mask, 4), true, -INFINITY, facts);
      if (!why.empty()) return unknown(node, "has a mask that is not over keys");
      if (scores->mask) scores->mask->keys = none;
    } else {
      if (why = add_tensor(*scores, mask, facts); !why.empty()) return unknown(node, why);
      if (scores->mask && scores->mask->keys.score <= std::numeric_limits<float>::lowest()) scores->mask->keys = none;
    }
  }
  if (integer(node, "is_causal", 0) != 0) scores->right = 0;
  return context_of_node(node, *scores, heads.value, facts.input(node, 0)->shape.size() == 4, facts);
}

// The element of the cache of cosines or sines for the position of each token and this pair of columns. `positions`:
// null: the cache has a row for each token. Null where the shapes are others.
ExpressionPointer cached_value(const SymbolicTensor& cache, const SymbolicTensor* positions,
                               const ExpressionPointer& pair) {
  if (positions == nullptr) {
    if (cache.shape.size() != 3) return nullptr;
    return substitute(cache.expression, {axis_index(0), axis_index(2), pair});
  }
  if (cache.shape.size() != 2) return nullptr;
  if (positions->shape == Shape{fixed(1)}) {
    const auto offset = scalar_of(*positions);
    if (!offset) return nullptr;
    const ExpressionPointer position =
        apply(Operation::add, ElementType::int64, {axis_index(2), literal(*offset, ElementType::int64)});
    return substitute(cache.expression, {position, pair});
  }
  if (positions->shape.size() != 2) return nullptr;
  const std::vector<ExpressionPointer> token{
      positions->shape[0] == fixed(1) ? literal(0, ElementType::int64) : axis_index(0), axis_index(2)};
  return substitute(cache.expression, {substitute(positions->expression, token), pair});
}

// RotaryEmbedding of com.microsoft (input, position_ids, cos_cache, sin_cache), and of ONNX (X, cos_cache, sin_cache,
// position_ids): as an expression.
Fact rotary_embedding(const Node& node, KnownFacts& facts) {
  const bool is_microsoft = node.domain == "com.microsoft";
  const SymbolicTensor *rows = facts.input(node, 0), *positions = facts.input(node, is_microsoft ? 1 : 3),
                       *cosines = facts.input(node, is_microsoft ? 2 : 1),
                       *sines = facts.input(node, is_microsoft ? 3 : 2);
  const bool has_positions = !name_of_input(node, is_microsoft ? 1 : 3).empty();
  const SymbolicTensor* const positions_if_given = has_positions ? positions : nullptr;
  if (rows == nullptr || cosines == nullptr || sines == nullptr || (has_positions && positions == nullptr))
    return Unknown{};
  const auto refuse = [&node] { return unknown(node, "has attributes or inputs that are not supported"); };
  const auto heads = heads_of(*rows, count_of(node, "num_heads"), facts);
  if (!heads || integer(node, "is_packed_batching", 0) != 0 || number(node, "scale", 1) != 1) return refuse();
  const std::size_t given = count_of(node, "rotary_embedding_dim"), dimensions = given == 0 ? heads->head_size : given;
  if (dimensions % 2 != 0 || dimensions > heads->head_size) return refuse();
  const auto whole = [](std::size_t value) { return literal(static_cast<double>(value), ElementType::int64); };
  const auto integers = [](Operation operation, std::vector<ExpressionPointer> arguments) {
    return apply(operation, ElementType::int64, std::move(arguments));
  };
  const ExpressionPointer column = axis_index(3);
  const std::size_t half = dimensions / 2;
  const bool is_interleaved = integer(node, "interleaved", 0) != 0;
  const ExpressionPointer pair = is_interleaved ? integers(Operation::divide, {column, whole(2)})
                                                : integers(Operation::remainder, {column, whole(half)});
  const ExpressionPointer is_second =
      is_interleaved ? apply(Operation::equal, ElementType::boolean,
                             {integers(Operation::remainder, {column, whole(2)}), whole(1)})
                     : apply(Operation::less_or_equal, ElementType::boolean, {whole(half), column});
  const ExpressionPointer distance = whole(is_interleaved ? 1 : half);
  const ExpressionPointer cosine = cached_value(*cosines, positions_if_given, pair),
                          sine = cached_value(*sines, positions_if_given, pair);
  if (cosine == nullptr || sine == nullptr) return refuse();
  const auto floats = [](Operation operation, std::vector<ExpressionPointer> arguments) {
    return apply(operation, ElementType::float32, std::move(arguments));
  };
  const auto element = [&](const ExpressionPointer& at) {
    return substitute(heads->expression, {nullptr, nullptr, nullptr, at});
  };
  const ExpressionPointer partner =
      floats(Operation::where, {is_second, element(integers(Operation::subtract, {column, distance})),
                                floats(Operation::negate, {element(integers(Operation::add, {column, distance}))})});
  const ExpressionPointer turned = floats(Operation::add, {floats(Operation::multiply, {heads->expression, cosine}),
                                                           floats(Operation::multiply, {partner, sine})});
  const ExpressionPointer is_turned = apply(Operation::less, ElementType::boolean, {column, whole(dimensions)});
  const SymbolicTensor all{{facts.batch, fixed(static_cast<std::int64_t>(heads->num_heads)), facts.sequence,
                            fixed(static_cast<std::int64_t>(heads->head_size))},
                           ElementType::float32,
                           floats(Operation::where, {is_turned, turned, heads->expression})};
  if (rows->shape.size() == 4) return all;
  const SymbolicTensor by_token{
      {all.shape[0], all.shape[2], all.shape[1], all.shape[3]},
      ElementType::float32,
      substitute(all.expression, {axis_index(0), axis_index(2), axis_index(1), axis_index(3)})};
  const auto result = reshaped(by_token, rows->shape);
  return result ? Fact(*result) : refuse();
}

}  // namespace

Fact derive_attention_node(const Node& node, KnownFacts& facts) {
  const bool is_microsoft = node.domain == "com.microsoft";
  if (node.type == "RotaryEmbedding") return rotary_embedding(node, facts);
  if (is_microsoft && node.type == "Attention") return packed_attention(node, facts);
  if (is_microsoft && node.type == "MultiHeadAttention") return multi_head_attention(node, facts);
  return !is_microsoft && node.type == "Attention" ? onnx_attention(node, facts) : Fact(Unknown{});
}

}  // namespace gpux_cpu::encoder
