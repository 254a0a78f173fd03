// Attention in one node: ONNX's own, and those of com.microsoft.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "recognizer/attention_scores.h"

namespace gpux_encoder {
namespace {

// com.microsoft: a mask of [batch, sequence], or the number of unmasked tokens of each text.
std::optional<AttentionScores> with_padding(const AttentionScores& scores, const std::string& name, const Node& node,
                                            const KnownFacts& facts) {
  const auto value = node.attributes.find("mask_filter_value");
  const float hidden = value == node.attributes.end() ? -10000.0F : value->second.number;
  if (!(static_cast<double>(hidden) < max_masked_score) || scores.mask) return std::nullopt;
  AttentionScores with = scores;
  if (const auto* tokens = facts.as<TokenCount>(name)) {
    if (tokens->order != axis_order::batch || tokens->is_guarded) return std::nullopt;
    with.mask = RecognizedMask{tokens->mask, {hidden, false, false}, true};
    return with;
  }
  const auto* tensor = facts.as<SymbolicTensor>(name);
  if (tensor == nullptr || tensor->shape != Shape{facts.batch, facts.sequence}) return std::nullopt;
  const auto mask = mask_of(*tensor, 2, 0, 1, facts);
  if (!mask || !(mask->unmasked > 0)) return std::nullopt;
  if (mask->masked > 0) return scores;
  with.mask = RecognizedMask{mask->source, {hidden, false, false}, false};
  return with;
}

struct QueryKeyValue {
  Heads query, key, value;
};

// Shared by all attention nodes: scores, masks and biases, probabilities, context.
Fact attended(const Node& node, const KnownFacts& facts, const QueryKeyValue& heads, const std::string& padding,
              const std::string& added, AxisOrder order) {
  auto scores = scores_of(heads.query, heads.key, axis_order::batch_heads_query_key);
  if (!scores) return unknown(node, "is not over queries and keys of the same rows");
  const double head_size = static_cast<double>(columns_of(heads.query)) / static_cast<double>(heads.query.num_heads);
  const auto given = node.attributes.find("scale");
  const bool has_scale = given != node.attributes.end() && given->second.number != 0;
  scores->scale *= has_scale ? static_cast<double>(given->second.number) : 1 / std::sqrt(head_size);
  if (!added.empty()) {
    const auto* tensor = facts.as<SymbolicTensor>(added);
    std::string why = "adds something unknown to scores";
    const auto with = tensor == nullptr ? std::nullopt : with_added(*scores, *tensor, facts, why);
    if (!with) return unknown(node, why);
    scores = with;
  }
  if (!padding.empty()) {
    scores = with_padding(*scores, padding, node, facts);
    if (!scores) return unknown(node, "has a mask of another shape than [batch, sequence]");
  }
  scores->stage = AttentionScores::Stage::probabilities;
  return context_of(node, *scores, heads.value, order);
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

// com.microsoft Attention: input, weights of query, key and value, bias, mask_index, past, attention_bias.
Fact packed_attention(const Node& node, const KnownFacts& facts) {
  const auto* hidden = facts.as<HiddenStates>(given(node, 0));
  const Constant* weights = facts.weights(given(node, 1), 2);
  if (hidden == nullptr || weights == nullptr || hidden->order != axis_order::batch_sequence_hidden) return Unknown{};
  const auto num_heads = static_cast<std::size_t>(std::max<std::int64_t>(integer(node, "num_heads", 0), 0));
  const auto sizes = node.attributes.find("qkv_hidden_sizes");
  const auto hidden_size = static_cast<std::int64_t>(facts.hidden_size);
  const bool is_even = sizes == node.attributes.end() || sizes->second.integers.empty() ||
                       sizes->second.integers == std::vector<std::int64_t>{hidden_size, hidden_size, hidden_size};
  const bool is_plain = integer(node, "unidirectional", 0) == 0 && integer(node, "do_rotary", 0) == 0 &&
                        integer(node, "past_present_share_buffer", 0) == 0 && given(node, 4).empty() &&
                        given(node, 6).empty();
  if (!is_even || !is_plain || num_heads == 0 || facts.hidden_size % num_heads != 0 ||
      weights->shape != std::vector<std::int64_t>{hidden_size, 3 * hidden_size}) {
    return unknown(node, "has attributes or inputs that are not supported");
  }
  auto all = projection_of(facts, given(node, 0), {weights, false, 0, 3 * facts.hidden_size, nullptr, 0});
  if (all && !given(node, 2).empty()) {
    const Constant* bias = facts.weights(given(node, 2), 1);
    all = bias == nullptr ? std::nullopt : with_bias(*all, *bias);
  }
  if (!all) return unknown(node, "has a bias that does not fit");
  std::vector<Heads> parts;
  for (std::size_t part = 0; part < 3; ++part) {
    Projection projection = *all;
    projection.linear.first_column = projection.linear.first_bias = part * facts.hidden_size;
    projection.linear.columns = facts.hidden_size;
    parts.push_back({projection, num_heads, 1, axis_order::batch_heads_sequence_size, 1});
  }
  return attended(node, facts, {parts[0], parts[1], parts[2]}, given(node, 3), given(node, 5),
                  axis_order::batch_sequence_hidden);
}

std::optional<Heads> heads_of(const KnownFacts& facts, const std::string& rows, std::size_t num_heads) {
  const auto* projection = facts.as<Projection>(rows);
  const auto* scaled = facts.as<Elementwise>(rows);
  if ((projection == nullptr && scaled == nullptr) || num_heads == 0) return std::nullopt;
  const Projection& from = projection != nullptr ? *projection : scaled->projection;
  const auto factor = projection != nullptr ? std::optional(1.0) : factor_of(*scaled->function);
  if (!factor || from.of != Projection::Of::hidden || from.order != axis_order::batch_sequence_hidden ||
      from.linear.columns % num_heads != 0) {
    return std::nullopt;
  }
  return Heads{from, num_heads, 1, axis_order::batch_heads_sequence_size, *factor};
}

// com.microsoft MultiHeadAttention: query, key, value, bias, key_padding_mask, attention_bias.
Fact multi_head_attention(const Node& node, const KnownFacts& facts) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(integer(node, "num_heads", 0), 0));
  std::vector<Heads> parts;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto one = heads_of(facts, given(node, i), count);
    if (!one) return Unknown{};
    parts.push_back(*one);
  }
  if (is_given_from(node, 6) || integer(node, "unidirectional", 0) != 0) {
    return unknown(node, "has attributes or inputs that are not supported");
  }
  if (!given(node, 3).empty()) {
    const Constant* bias = facts.weights(given(node, 3), 1);
    const std::size_t columns = columns_of(parts[0]);
    for (std::size_t i = 0; i < 3; ++i) {
      RecognizedLinear& linear = parts[i].projection.linear;
      if (bias == nullptr || bias->count() != 3 * columns || linear.columns != columns || linear.bias != nullptr ||
          parts[i].scale != 1) {
        return unknown(node, "has a bias that does not fit");
      }
      linear.bias = bias;
      linear.first_bias = i * columns;
    }
  }
  return attended(node, facts, {parts[0], parts[1], parts[2]}, given(node, 4), given(node, 5),
                  axis_order::batch_sequence_hidden);
}

// ONNX Attention: Q, K, V, attn_mask.
Fact onnx_attention(const Node& node, const KnownFacts& facts) {
  const auto softcap = node.attributes.find("softcap");
  const bool is_plain = integer(node, "is_causal", 0) == 0 && !is_given_from(node, 4) &&
                        (softcap == node.attributes.end() || softcap->second.number == 0);
  std::vector<Heads> parts;
  bool is_split = true;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string name = given(node, i);
    if (const auto* heads = facts.as<Heads>(name)) {
      if (heads->order != axis_order::batch_heads_sequence_size) return unknown(node, "is over heads of another order");
      parts.push_back(*heads);
      continue;
    }
    is_split = false;
    const std::int64_t count = integer(node, i == 0 ? "q_num_heads" : "kv_num_heads", 0);
    const auto one = heads_of(facts, name, static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    if (!one) return Unknown{};
    parts.push_back(*one);
  }
  if (!is_plain) return unknown(node, "has attributes or inputs that are not supported");
  std::string added = given(node, 3);
  const QueryKeyValue heads{parts[0], parts[1], parts[2]};
  const AxisOrder order = is_split ? axis_order::batch_heads_sequence_size : axis_order::batch_sequence_hidden;
  const auto* mask = added.empty() ? nullptr : facts.as<SymbolicTensor>(added);
  // If all keys are masked, ONNX Runtime's probabilities are 0.
  constexpr MaskedKeys none{-std::numeric_limits<float>::infinity(), false, true};
  if (mask == nullptr || mask->element_type != ElementType::boolean) {
    Fact mixed = attended(node, facts, heads, {}, added, order);
    if (auto* context = std::get_if<Context>(&mixed); context != nullptr && context->scores.mask) {
      MaskedKeys& keys = context->scores.mask->keys;
      if (keys.score <= std::numeric_limits<float>::lowest()) keys = none;
    }
    return mixed;
  }
  // True for each unmasked key.
  const auto bits = mask->shape.size() <= 4 ? mask_of(*mask, 4, 0, 3, facts) : std::nullopt;
  if (!bits || bits->unmasked != 1) return unknown(node, "has a mask that is not over keys");
  Fact plain = attended(node, facts, heads, {}, {}, order);
  const auto* context = std::get_if<Context>(&plain);
  if (context == nullptr || bits->masked == 1) return plain;
  Context with = *context;
  with.scores.mask = RecognizedMask{bits->source, none, false};
  return with;
}

}  // namespace

Fact derive_attention_node(const Node& node, const KnownFacts& facts) {
  const bool is_microsoft = node.domain == "com.microsoft";
  if (is_microsoft && node.type == "Attention") return packed_attention(node, facts);
  if (is_microsoft && node.type == "MultiHeadAttention") return multi_head_attention(node, facts);
  return !is_microsoft && node.type == "Attention" ? onnx_attention(node, facts) : Fact(Unknown{});
}

}  // namespace gpux_encoder
