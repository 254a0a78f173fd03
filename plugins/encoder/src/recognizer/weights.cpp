// The weights of a recognised encoder, copied from the graph's constants and packed for the kernels.
#include <cmath>
#include <deque>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include "recognizer/recognizer.h"

namespace gpux_encoder {
namespace {

const float* floats(const Constant& constant) {
  return static_cast<const float*>(constant.data);
}

std::vector<float> rows_of(const RecognizedTable& table, std::size_t count) {
  if (table.rows == nullptr) return {};
  const std::size_t all = table.rows->count() / table.hidden_size() - table.first;
  const float* const begin = floats(*table.rows) + table.first * table.hidden_size();
  return {begin, begin + std::min(all, count) * table.hidden_size()};
}

Norm layer_norm_of(const RecognizedLayerNorm& found) {
  const std::size_t hidden_size = found.gamma->count();
  const auto copy = [hidden_size](const Constant& constant) {
    return std::vector<float>(floats(constant), floats(constant) + hidden_size);
  };
  return {copy(*found.gamma), copy(*found.beta), found.epsilon};
}

/// Some columns of a matrix as a matrix; `copies` owns it.
PlainWeights plain(const RecognizedLinear& found, std::deque<std::vector<float>>& copies) {
  const std::size_t inner = found.inner();
  const float* const all = floats(*found.weights);
  if (found.transposed) return {all + found.first_column * inner, inner, found.columns, true};
  const auto all_columns = static_cast<std::size_t>(found.weights->shape[1]);
  if (found.columns == all_columns) return {all, inner, all_columns, false};
  std::vector<float>& own = copies.emplace_back();
  own.reserve(inner * found.columns);
  for (std::size_t row = 0; row < inner; ++row) {
    const float* const first = all + row * all_columns + found.first_column;
    own.insert(own.end(), first, first + found.columns);
  }
  return {own.data(), inner, found.columns, false};
}

Linear linear_of(std::initializer_list<const RecognizedLinear*> parts, Precision precision) {
  std::deque<std::vector<float>> copies;
  std::vector<PlainWeights> weights;
  std::vector<float> bias;
  for (const RecognizedLinear* part : parts) {
    weights.push_back(plain(*part, copies));
    if (part->bias == nullptr) {
      bias.resize(bias.size() + part->columns);
    } else {
      const float* const first = floats(*part->bias) + part->first_bias;
      bias.insert(bias.end(), first, first + part->columns);
    }
  }
  return {precision, weights, bias};
}

// [num_heads, 2 * positions - 1], by key - query + positions - 1.
std::vector<float> relative_bias_of(const RecognizedEncoder& found, std::size_t positions) {
  const std::size_t distances = 2 * positions - 1;
  std::vector<float> all(found.num_heads * distances);
  for (std::size_t query = 0; query < positions; ++query) {
    for (std::size_t key = 0; key < positions; ++key) {
      for (std::size_t head = 0; head < found.num_heads; ++head) {
        const auto value =
            static_cast<float>(evaluate(*found.position_bias, {0, static_cast<double>(head), static_cast<double>(query),
                                                               static_cast<double>(key)}));
        if (std::isnan(value)) throw std::out_of_range("the position bias is not known for all positions");
        float& kept = all[head * distances + key + positions - 1 - query];
        const bool is_first = query == 0 || key == 0;
        if (!is_first && kept != value) {
          throw std::out_of_range("the position bias is not a function of key position minus query position");
        }
        kept = value;
      }
    }
  }
  return all;
}

// As far as the bias is known.
std::size_t max_bias_positions_of(const RecognizedEncoder& found) {
  std::size_t positions = 0;
  const auto is_known = [&](double query, double key) {
    return !std::isnan(evaluate(*found.position_bias, {0, static_cast<double>(found.num_heads - 1), query, key}));
  };
  while (positions < found.embeddings.max_positions) {
    const auto next = static_cast<double>(positions);
    if (!is_known(next, next) || !is_known(0, next) || !is_known(next, 0)) break;
    ++positions;
  }
  return positions;
}

}  // namespace

Weights weights_of(const RecognizedEncoder& found, Precision precision) {
  const RecognizedEmbeddings& embeddings = found.embeddings;
  Weights weights;
  weights.hidden_size = embeddings.word_embeddings.hidden_size();
  weights.num_heads = weights.num_kv_heads = found.num_heads;
  weights.head_size = weights.hidden_size / found.num_heads;
  weights.embedding_size = weights.hidden_size;
  weights.word_embeddings = rows_of(embeddings.word_embeddings, SIZE_MAX / 2);
  weights.position_embeddings = rows_of(embeddings.position_embeddings, embeddings.max_positions);
  weights.token_type_embeddings =
      rows_of(embeddings.token_type_embeddings, embeddings.token_type_ids.empty() ? 1 : SIZE_MAX / 2);
  if (embeddings.pad_token_id) {
    weights.position_ids = PositionIds::from_pad_token;
    weights.pad_token_id = *embeddings.pad_token_id;
  }
  if (found.position_bias != nullptr) {
    weights.max_relative_positions = max_bias_positions_of(found);
    weights.relative_bias = relative_bias_of(found, weights.max_relative_positions);
  }
  weights.embedding_norm = layer_norm_of(found.embedding_layer_norm);
  weights.masked_keys = found.mask.keys;
  weights.masked_id = found.mask.source.masked_id;
  weights.mask_from_front = found.mask.from_front;
  for (const RecognizedLayer& layer : found.layers) {
    const auto [query_key_value, others] = layer_precision(precision, found.layers.size() - weights.layers.size() - 1);
    weights.layers.push_back({.query_key_value = linear_of({&layer.query, &layer.key, &layer.value}, query_key_value),
                              .attention_output = linear_of({&layer.attention_output}, others),
                              .attention_sum_norm = layer_norm_of(layer.attention_layer_norm),
                              .up_projection = linear_of({&layer.up_projection}, others),
                              .down_projection = linear_of({&layer.down_projection}, others),
                              .activation = layer.activation,
                              .feed_forward_sum_norm = layer_norm_of(layer.output_layer_norm),
                              .score_scale = layer.score_scale});
  }
  weights.pooling = found.vectors.empty() ? Pooling::none : found.pooling;
  weights.normalize = found.normalize;
  return weights;
}

}  // namespace gpux_encoder
