// The weights of a recognised encoder, copied from the graph's constants and packed for the kernels.
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "recognizer/recognizer.h"
#include "recognizer/relative_positions.h"

namespace gpux_cpu::encoder {
namespace {

/// Of texts whose length no table limits.
constexpr std::size_t max_positions = std::size_t{1} << 15;

/// A window without a limit on one side.
constexpr std::size_t unlimited = std::size_t{1} << 20;

const float* floats(const Constant& constant) {
  return static_cast<const float*>(constant.data);
}

std::vector<float> rows_of(const RecognizedTable& table, std::size_t count) {
  if (table.rows == nullptr) return {};
  const std::size_t all = table.rows->count() / table.hidden_size() - table.first;
  const float* const begin = floats(*table.rows) + table.first * table.hidden_size();
  return {begin, begin + std::min(all, count) * table.hidden_size()};
}

Norm norm_of(const RecognizedNorm& found) {
  const auto copy = [&found](const Constant& constant) {
    return std::vector<float>(floats(constant), floats(constant) + found.size);
  };
  Norm norm;
  norm.kind = found.kind;
  norm.epsilon = found.epsilon;
  norm.gamma = found.gamma == nullptr ? std::vector<float>(found.size, 1.0F) : copy(*found.gamma);
  if (found.beta != nullptr) norm.beta = copy(*found.beta);
  return norm;
}

std::optional<Norm> norm_of(const std::optional<RecognizedNorm>& found) {
  return found ? std::optional(norm_of(*found)) : std::nullopt;
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

/// Packs each matrix once: layers may share them.
class LinearPacker {
 public:
  Linear pack(const std::vector<RecognizedLinear>& parts, Precision precision) {
    for (const Packed& one : packed_) {
      if (one.precision == precision && one.parts == parts) return one.linear;
    }
    std::deque<std::vector<float>> copies;
    std::vector<PlainWeights> weights;
    std::vector<float> bias;
    const bool has_bias = std::ranges::any_of(parts, [](const RecognizedLinear& part) { return part.bias != nullptr; });
    for (const RecognizedLinear& part : parts) {
      weights.push_back(plain(part, copies));
      if (!has_bias) continue;
      if (part.bias == nullptr) {
        bias.resize(bias.size() + part.columns);
      } else {
        const float* const first = floats(*part.bias) + part.first_bias;
        bias.insert(bias.end(), first, first + part.columns);
      }
    }
    packed_.push_back({precision, parts, Linear(precision, weights, bias)});
    return packed_.back().linear;
  }

 private:
  struct Packed {
    Precision precision;
    std::vector<RecognizedLinear> parts;
    Linear linear;
  };

  std::deque<Packed> packed_;
};

RotaryTable rotary_table_of(const RecognizedRotary& found) {
  if (!found.inverse_frequencies.empty()) {
    std::vector<float> frequencies;
    for (const double one : found.inverse_frequencies) frequencies.push_back(static_cast<float>(one));
    return make_rotary_table(frequencies, max_positions, found.interleaved, found.attention_factor);
  }
  RotaryTable table{found.dimensions, found.interleaved, {}, {}};
  const auto read = [&found](const Constant& constant, const std::vector<std::size_t>& elements, std::size_t stride) {
    std::vector<float> all;
    const auto factor = static_cast<float>(found.attention_factor);
    for (std::size_t position = 0; position < found.positions; ++position) {
      for (const std::size_t element : elements) all.push_back(floats(constant)[element + position * stride] * factor);
    }
    return all;
  };
  table.cosines = read(*found.cosines, found.cosine_elements, found.cosine_stride);
  table.sines = read(*found.sines, found.sine_elements, found.sine_stride);
  return table;
}

/// How many positions relative tables are for: as many as the encoder's other tables, and as the expression is known.
std::size_t relative_positions_of(const RecognizedEncoder& found, std::size_t known) {
  std::size_t positions = known == 0 ? max_positions : known;
  if (found.embeddings.max_positions != 0) positions = std::min(positions, found.embeddings.max_positions);
  return positions;
}

// [num_heads, 2 * positions - 1], by key - query + positions - 1. Shortens `positions` to what is known.
std::vector<float> relative_bias_of(const Expression& at, std::size_t num_heads, std::size_t& positions) {
  const auto last_head = static_cast<double>(num_heads - 1);
  const auto is_known = [&](std::size_t distance) {
    const auto difference = static_cast<double>(distance);
    return value_at_difference(at, last_head, difference) && value_at_difference(at, last_head, -difference);
  };
  std::size_t known = 0;
  while (known < positions && is_known(known)) ++known;
  positions = known;
  if (positions == 0) throw std::out_of_range("the position bias is not known for any position");
  const std::size_t distances = 2 * positions - 1;
  std::vector<float> all(num_heads * distances);
  for (std::size_t head = 0; head < num_heads; ++head) {
    for (std::size_t i = 0; i < distances; ++i) {
      const double difference = static_cast<double>(i) - static_cast<double>(positions - 1);
      const auto value = value_at_difference(at, static_cast<double>(head), difference);
      if (!value) throw std::out_of_range("the position bias is not known for all positions");
      all[head * distances + i] = static_cast<float>(*value);
    }
  }
  return all;
}

std::vector<float> alibi_slopes_of(const Expression& bias, std::size_t num_heads) {
  std::vector<float> slopes;
  for (std::size_t head = 0; head < num_heads; ++head) {
    const auto one = value_at_difference(bias, static_cast<double>(head), 1);
    slopes.push_back(static_cast<float>(-one.value_or(0)));
  }
  return slopes;
}

// [num_heads, buckets, head_size].
std::vector<float> relative_table_of(const ExpressionPointer& table, const RecognizedEncoder& found,
                                     std::size_t buckets) {
  std::vector<float> all;
  if (table == nullptr) return all;
  all.reserve(found.num_heads * buckets * found.head_size);
  for (std::size_t head = 0; head < found.num_heads; ++head) {
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
      for (std::size_t column = 0; column < found.head_size; ++column) {
        const auto value = known_value(
            *table, std::array{static_cast<double>(head), static_cast<double>(bucket), static_cast<double>(column)});
        if (!value) throw std::out_of_range("the relative embeddings are not known for all buckets");
        all.push_back(static_cast<float>(*value));
      }
    }
  }
  return all;
}

// [2 * positions - 1], by key - query + positions - 1.
std::vector<std::uint32_t> relative_buckets_of(const Expression& bucket, std::size_t positions) {
  std::vector<std::uint32_t> buckets;
  const auto last = static_cast<double>(positions - 1);
  for (double difference = -last; difference <= last; ++difference) {
    const auto value = value_at_difference(bucket, 0, difference);
    if (!value) throw std::out_of_range("the relative buckets are not known for all positions");
    buckets.push_back(static_cast<std::uint32_t>(*value));
  }
  return buckets;
}

void set_bias(Weights& weights, const RecognizedEncoder& found, const RecognizedBias& bias) {
  const Expression& at = *bias.expression;
  if (bias.positions == 0 && is_linear_bias(at, found.num_heads)) {
    weights.alibi_slopes = alibi_slopes_of(at, found.num_heads);
    return;
  }
  std::size_t positions = relative_positions_of(found, bias.positions);
  weights.relative_bias = relative_bias_of(at, found.num_heads, positions);
  weights.max_relative_positions = positions;
}

void set_positions(Weights& weights, const RecognizedEncoder& found) {
  if (found.bias) set_bias(weights, found, *found.bias);
  for (const RecognizedLayer& layer : found.layers) {
    if (!layer.disentangled) continue;
    if (weights.max_relative_positions == 0) weights.max_relative_positions = relative_positions_of(found, 0);
    // All layers have the same buckets, or they are not assembled.
    weights.relative_buckets = relative_buckets_of(*layer.disentangled->bucket, weights.max_relative_positions);
    return;
  }
}

std::size_t rotary_index(Weights& weights, std::vector<RecognizedRotary>& known, const RecognizedRotary& rotary) {
  const auto found = std::ranges::find(known, rotary);
  if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
  known.push_back(rotary);
  weights.rotary_tables.push_back(rotary_table_of(rotary));
  return known.size() - 1;
}

Layer layer_of(const RecognizedLayer& found, const LayerPrecision& precision, LinearPacker& packer) {
  Layer layer;
  layer.query_key_value = packer.pack({found.query, found.key, found.value}, precision.query_key_value);
  layer.attention_output = packer.pack({found.attention_output}, precision.others);
  layer.query_norm = norm_of(found.query_norm);
  layer.key_norm = norm_of(found.key_norm);
  layer.attention_input_norm = norm_of(found.attention_input_norm);
  layer.attention_branch_norm = norm_of(found.attention_branch_norm);
  layer.attention_sum_norm = norm_of(found.attention_sum_norm);
  layer.feed_forward_input_norm = norm_of(found.feed_forward_input_norm);
  layer.feed_forward_branch_norm = norm_of(found.feed_forward_branch_norm);
  layer.feed_forward_sum_norm = norm_of(found.feed_forward_sum_norm);
  layer.gated = found.gate.has_value();
  layer.up_projection = found.gate ? packer.pack({*found.gate, found.up_projection}, precision.others)
                                   : packer.pack({found.up_projection}, precision.others);
  layer.down_projection = packer.pack({found.down_projection}, precision.others);
  layer.activation = found.activation;
  layer.causal = found.right == std::size_t{0};
  if (found.left || (found.right && !layer.causal)) {
    const auto limited = [](const std::optional<std::size_t>& range) {
      return std::min(range.value_or(unlimited), unlimited);
    };
    layer.window = Window{limited(found.left), limited(found.right)};
  }
  layer.score_scale = found.score_scale;
  return layer;
}

}  // namespace

Weights weights_of(const RecognizedEncoder& found, Precision precision) {
  const RecognizedEmbeddings& embeddings = found.embeddings;
  LinearPacker packer;
  Weights weights;
  weights.hidden_size = found.hidden_size();
  weights.num_heads = found.num_heads;
  weights.num_kv_heads = found.num_kv_heads;
  weights.head_size = found.head_size;
  weights.embedding_size = embeddings.word_embeddings.hidden_size();
  weights.word_embeddings = rows_of(embeddings.word_embeddings, SIZE_MAX / 2);
  weights.position_embeddings = rows_of(embeddings.position_embeddings, embeddings.max_positions);
  weights.token_type_embeddings =
      rows_of(embeddings.token_type_embeddings, embeddings.token_type_ids.empty() ? 1 : SIZE_MAX / 2);
  weights.embedding_scale = embeddings.scale;
  weights.embedding_norm = norm_of(found.embedding_norm);
  const Precision outer = layer_precision(precision, found.layers.size()).others;
  if (found.embedding_projection) weights.embedding_projection = packer.pack({*found.embedding_projection}, outer);
  weights.projected_embedding_norm = norm_of(found.projected_embedding_norm);
  weights.zero_masked_embeddings = found.zero_masked_embeddings;
  if (embeddings.pad_token_id) {
    weights.position_ids = PositionIds::from_pad_token;
    weights.pad_token_id = *embeddings.pad_token_id;
  }
  set_positions(weights, found);
  weights.masked_keys = found.mask.keys;
  weights.mask_excludes_queries = found.mask.excludes_queries;
  weights.masked_id = found.mask.source.masked_id;
  weights.mask_from_front = found.mask.from_front;
  std::vector<RecognizedRotary> rotaries;
  for (const RecognizedLayer& one : found.layers) {
    Layer layer = layer_of(one, layer_precision(precision, found.layers.size() - weights.layers.size() - 1), packer);
    if (one.rotary) layer.rotary_table = rotary_index(weights, rotaries, *one.rotary);
    if (one.disentangled) {
      layer.relative_keys = relative_table_of(one.disentangled->relative_keys, found, one.disentangled->buckets);
      layer.relative_queries = relative_table_of(one.disentangled->relative_queries, found, one.disentangled->buckets);
    }
    weights.layers.push_back(std::move(layer));
  }
  weights.final_norm = norm_of(found.final_norm);
  weights.pooling = found.vectors.empty() ? Pooling::none : found.pooling;
  if (found.masked_lm && weights.pooling == Pooling::splade) {
    weights.masked_lm = MaskedLmHead{packer.pack({found.masked_lm->transform}, outer), found.masked_lm->activation,
                                     norm_of(found.masked_lm->norm), packer.pack({found.masked_lm->decoder}, outer),
                                     found.masked_lm->has_second_log};
  }
  weights.normalize = found.normalize;
  return weights;
}

}  // namespace gpux_cpu::encoder
