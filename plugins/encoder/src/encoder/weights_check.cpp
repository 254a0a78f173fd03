#include "encoder/weights_check.h"

#include <algorithm>
#include <optional>

namespace gpux_cpu::encoder {
namespace {

// So that no product of sizes is more than a number holds.
constexpr std::size_t max_size = std::size_t{1} << 20;

bool is_size(std::size_t size) {
  return size > 0 && size <= max_size;
}

bool is_whole(const std::optional<Norm>& norm, std::size_t size) {
  return !norm || (norm->gamma.size() == size && (norm->beta.empty() || norm->beta.size() == size) &&
                   norm->kind <= NormKind::rms_norm);
}

bool is_whole(const RotaryTable& table, std::size_t head_size) {
  const std::size_t pairs = table.dimensions / 2;
  return table.dimensions % 2 == 0 && is_size(table.dimensions) && table.dimensions <= head_size &&
         !table.cosines.empty() && table.cosines.size() % pairs == 0 && table.sines.size() == table.cosines.size();
}

bool has_rows(const SharedArray<float>& table, std::size_t columns) {
  return table.size() % columns == 0;
}

// The number of relative buckets; 0 if it is of no such array.
std::size_t buckets_of(const SharedArray<float>& rows, const Weights& weights) {
  const std::size_t of_a_bucket = weights.num_heads * weights.head_size;
  return rows.size() % of_a_bucket == 0 ? rows.size() / of_a_bucket : 0;
}

bool has_buckets(const SharedArray<float>& rows, const Weights& weights) {
  if (rows.empty()) return true;
  const std::size_t buckets = buckets_of(rows, weights);
  return buckets > 0 && !weights.relative_buckets.empty() &&
         std::all_of(weights.relative_buckets.data(), weights.relative_buckets.data() + weights.relative_buckets.size(),
                     [buckets](std::uint32_t bucket) { return bucket < buckets; });
}

bool is_whole(const Layer& layer, const LayerPrecision& precision, const Weights& weights) {
  const std::size_t hidden_size = weights.hidden_size, intermediate_size = layer.down_projection.inner();
  const std::size_t query_columns = weights.num_heads * weights.head_size,
                    key_columns = weights.num_kv_heads * weights.head_size;
  const auto is_head_norm = [&](const std::optional<Norm>& norm, std::size_t columns) {
    return is_whole(norm, weights.head_size) || is_whole(norm, columns);
  };
  return layer.query_key_value.has_shape(precision.query_key_value, hidden_size, query_columns + 2 * key_columns) &&
         layer.attention_output.has_shape(precision.others, query_columns, hidden_size) &&
         is_head_norm(layer.query_norm, query_columns) && is_head_norm(layer.key_norm, key_columns) &&
         is_whole(layer.attention_input_norm, hidden_size) && is_whole(layer.attention_branch_norm, hidden_size) &&
         is_whole(layer.attention_sum_norm, hidden_size) && is_whole(layer.feed_forward_input_norm, hidden_size) &&
         is_whole(layer.feed_forward_branch_norm, hidden_size) && is_whole(layer.feed_forward_sum_norm, hidden_size) &&
         is_size(intermediate_size) &&
         layer.up_projection.has_shape(precision.others, hidden_size, (layer.gated ? 2 : 1) * intermediate_size) &&
         layer.down_projection.has_shape(precision.others, intermediate_size, hidden_size) &&
         layer.activation <= Activation::quick_gelu &&
         (!layer.rotary_table || *layer.rotary_table < weights.rotary_tables.size()) &&
         (!layer.window || (layer.window->left <= max_size && layer.window->right <= max_size)) &&
         has_buckets(layer.relative_keys, weights) && has_buckets(layer.relative_queries, weights);
}

bool has_whole_embeddings(const Weights& weights, Precision precision) {
  const std::size_t embedding_size = weights.embedding_size;
  if (!is_size(embedding_size) || !has_rows(weights.word_embeddings, embedding_size) ||
      !has_rows(weights.position_embeddings, embedding_size) ||
      !has_rows(weights.token_type_embeddings, embedding_size) || !is_whole(weights.embedding_norm, embedding_size) ||
      !is_whole(weights.projected_embedding_norm, weights.hidden_size)) {
    return false;
  }
  if (!weights.embedding_projection) return embedding_size == weights.hidden_size;
  return weights.embedding_projection->has_shape(layer_precision(precision, weights.layers.size()).others,
                                                 embedding_size, weights.hidden_size);
}

bool has_whole_positions(const Weights& weights) {
  const std::size_t positions = weights.max_relative_positions;
  if (positions > max_size || weights.position_ids > PositionIds::input) return false;
  const std::size_t distances = positions == 0 ? 0 : 2 * positions - 1;
  const auto fits = [](std::size_t size, std::size_t expected) { return size == 0 || size == expected; };
  if (!fits(weights.relative_bias.size(), weights.num_heads * distances) ||
      !fits(weights.relative_buckets.size(), distances) || !fits(weights.alibi_slopes.size(), weights.num_heads) ||
      !std::ranges::all_of(weights.rotary_tables,
                           [&](const RotaryTable& table) { return is_whole(table, weights.head_size); })) {
    return false;
  }
  const auto position_ids = max_position_ids(weights);
  return weights.position_ids != PositionIds::from_mask || !position_ids ||
         (weights.masked_position_id >= 0 &&
          static_cast<std::uint64_t>(weights.masked_position_id) < std::uint64_t{*position_ids});
}

bool has_whole_results(const Weights& weights, Precision precision) {
  if (!is_whole(weights.final_norm, weights.hidden_size) || weights.pooling > Pooling::splade) return false;
  if (!weights.masked_lm) return weights.pooling != Pooling::splade;
  const MaskedLmHead& head = *weights.masked_lm;
  const Precision products = layer_precision(precision, weights.layers.size()).others;
  const std::size_t inner = head.decoder.inner(), vocabulary_size = head.decoder.unpadded_columns();
  return is_size(inner) && is_size(vocabulary_size) && head.transform.has_shape(products, weights.hidden_size, inner) &&
         is_whole(head.norm, inner) && head.decoder.has_shape(products, inner, vocabulary_size) &&
         head.activation <= Activation::quick_gelu;
}

}  // namespace

bool is_whole(const Weights& weights, Precision precision) noexcept {
  if (!is_size(weights.hidden_size) || !is_size(weights.num_heads) || !is_size(weights.num_kv_heads) ||
      !is_size(weights.head_size) || weights.num_heads % weights.num_kv_heads != 0)
    return false;
  // Attention in bfloat16 takes its rows by pairs.
  if (precision != Precision::fp32 && weights.head_size % 2 != 0) return false;
  std::size_t layers_behind = weights.layers.size();
  return layers_behind > 0 && has_whole_embeddings(weights, precision) && has_whole_positions(weights) &&
         has_whole_results(weights, precision) && std::ranges::all_of(weights.layers, [&](const Layer& layer) {
           return is_whole(layer, layer_precision(precision, --layers_behind), weights);
         });
}

}  // namespace gpux_cpu::encoder
