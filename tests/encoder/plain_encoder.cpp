#include "encoder/plain_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

namespace gpux_encoder {
namespace {

using Rows = std::vector<std::vector<double>>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::vector<float> random_values(std::size_t count, float spread, float middle, std::mt19937_64& engine) {
  std::normal_distribution<float> normal(middle, spread);
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

Rows product(const PlainLinear& linear, const Rows& rows) {
  Rows out;
  for (const std::vector<double>& row : rows) {
    std::vector<double>& sums = out.emplace_back(linear.bias.begin(), linear.bias.end());
    for (std::size_t k = 0; k < linear.inner; ++k) {
      for (std::size_t column = 0; column < linear.columns; ++column) {
        sums[column] += row[k] * static_cast<double>(linear.weights[k * linear.columns + column]);
      }
    }
  }
  return out;
}

void normalize(const Norm& norm, std::vector<double>& row) {
  const auto count = static_cast<double>(row.size());
  const double mean = std::accumulate(row.begin(), row.end(), 0.0) / count;
  double variance = 0;
  for (const double value : row) variance += (value - mean) * (value - mean) / count;
  const double inverse_deviation = 1 / std::sqrt(variance + static_cast<double>(norm.epsilon));
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = (row[i] - mean) * inverse_deviation * static_cast<double>(norm.gamma.data()[i]) +
             static_cast<double>(norm.beta.data()[i]);
  }
}

void add_and_normalize(const Norm& norm, const Rows& added, Rows& rows) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t i = 0; i < rows[row].size(); ++i) rows[row][i] += added[row][i];
    normalize(norm, rows[row]);
  }
}

void to_probabilities(std::vector<double>& scores, bool zero_if_all_masked) {
  const double largest = *std::ranges::max_element(scores);
  if (std::isinf(largest)) {
    std::ranges::fill(scores, zero_if_all_masked ? 0.0 : nan);
    return;
  }
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
}

/// One text on its way through the layers.
class Text {
 public:
  Text(const PlainEncoder& encoder, const Batch& batch, std::size_t text)
      : encoder_(encoder),
        settings_(encoder.settings),
        length_(batch.sequence_length),
        is_unmasked_(batch.sequence_length, true) {
    const std::int64_t* const ids = batch.input_ids + text * length_;
    for (std::size_t position = 0; position < length_; ++position) {
      if (settings_.masked_id) is_unmasked_[position] = ids[position] != *settings_.masked_id;
      if (batch.attention_mask != nullptr && !settings_.masked_id)
        is_unmasked_[position] = batch.attention_mask[text * length_ + position] != 0;
    }
    unmasked_count_ = static_cast<std::size_t>(std::ranges::count(is_unmasked_, true));
    if (settings_.mask_from_front) {
      for (std::size_t position = 0; position < length_; ++position)
        is_unmasked_[position] = position < unmasked_count_;
    }
    const bool counts_tokens = settings_.position_ids == PositionIds::from_pad_token;
    std::size_t tokens = 0;
    for (std::size_t position = 0; position < length_; ++position) {
      const bool is_token = !counts_tokens || ids[position] != settings_.pad_token_id;
      if (is_token) ++tokens;
      const std::size_t position_id = !counts_tokens ? position : is_token ? tokens : 0;
      const std::int64_t type = batch.token_type_ids == nullptr ? 0 : batch.token_type_ids[text * length_ + position];
      embed(static_cast<std::size_t>(ids[position]), position_id, static_cast<std::size_t>(type));
    }
  }

  Rows through_layers() && {
    for (const PlainLayer& layer : encoder_.layers) {
      add_and_normalize(layer.attention_sum_norm, product(layer.attention_output, attended(layer)), rows_);
      Rows wide = product(layer.up_projection, rows_);
      for (std::vector<double>& row : wide) {
        for (double& x : row) x = 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
      }
      add_and_normalize(layer.feed_forward_sum_norm, product(layer.down_projection, wide), rows_);
    }
    return std::move(rows_);
  }

  [[nodiscard]] std::vector<double> pooled(const Rows& rows) const {
    std::vector<double> vector(settings_.hidden_size, 0);
    if (settings_.pooling == Pooling::cls) {
      vector = rows.front();
    } else {
      for (std::size_t position = 0; position < length_; ++position) {
        for (std::size_t i = 0; i < vector.size(); ++i)
          vector[i] += rows[position][i] * (is_unmasked_[position] ? 1 : 0);
      }
      for (double& value : vector) value /= std::max(static_cast<double>(unmasked_count_), 1e-9);
    }
    if (!settings_.normalize) return vector;
    double squares = 0;
    for (const double value : vector) squares += value * value;
    for (double& value : vector) value /= std::isnan(squares) ? nan : std::max(std::sqrt(squares), 1e-12);
    return vector;
  }

 private:
  void embed(std::size_t id, std::size_t position, std::size_t type) {
    const std::size_t hidden_size = settings_.hidden_size;
    std::vector<double>& row = rows_.emplace_back(hidden_size);
    for (std::size_t i = 0; i < hidden_size; ++i) {
      row[i] = static_cast<double>(settings_.word_embeddings.data()[id * hidden_size + i]) +
               static_cast<double>(settings_.position_embeddings.data()[position * hidden_size + i]);
      if (!settings_.token_type_embeddings.empty())
        row[i] += static_cast<double>(settings_.token_type_embeddings.data()[type * hidden_size + i]);
    }
    normalize(*settings_.embedding_norm, row);
  }

  [[nodiscard]] Rows attended(const PlainLayer& layer) const {
    const std::size_t hidden_size = settings_.hidden_size, head_size = hidden_size / settings_.num_heads;
    const Rows all = product(layer.query_key_value, rows_);
    Rows context(length_, std::vector<double>(hidden_size, 0));
    for (std::size_t head = 0; head < settings_.num_heads; ++head) {
      for (std::size_t query = 0; query < length_; ++query) {
        std::vector<double> probabilities;
        for (std::size_t key = 0; key < length_; ++key) {
          double score = 0;
          for (std::size_t i = head * head_size; i < (head + 1) * head_size; ++i)
            score += all[query][i] * all[key][hidden_size + i];
          probabilities.push_back(
              masked(score * static_cast<double>(encoder_.score_scale) + position_bias(head, query, key), key));
        }
        to_probabilities(probabilities, settings_.masked_keys.zero_if_all_masked);
        for (std::size_t key = 0; key < length_; ++key) {
          for (std::size_t i = head * head_size; i < (head + 1) * head_size; ++i) {
            context[query][i] += probabilities[key] * all[key][2 * hidden_size + i];
          }
        }
      }
    }
    return context;
  }

  [[nodiscard]] double position_bias(std::size_t head, std::size_t query, std::size_t key) const {
    const std::size_t max_positions = settings_.max_relative_positions;
    if (settings_.relative_bias.empty()) return 0;
    return static_cast<double>(
        settings_.relative_bias.data()[head * (2 * max_positions - 1) + key + max_positions - 1 - query]);
  }

  // In float32, as graphs compute it: beside a number as large as -3e38 nothing is left of a score.
  [[nodiscard]] double masked(double score, std::size_t key) const {
    if (is_unmasked_[key]) return score;
    const MaskedKeys& keys = settings_.masked_keys;
    return static_cast<double>(keys.replaces ? keys.score : static_cast<float>(score) + keys.score);
  }

  const PlainEncoder& encoder_;
  const Weights& settings_;
  const std::size_t length_;
  std::vector<bool> is_unmasked_;
  std::size_t unmasked_count_ = 0;
  Rows rows_;
};

Linear packed(const PlainLinear& linear, Precision precision) {
  const PlainWeights plain{linear.weights.data(), linear.inner, linear.columns, false};
  return {precision, std::span(&plain, 1), linear.bias};
}

}  // namespace

PlainEncoder::Results PlainEncoder::run(const Batch& batch) const {
  Results results;
  for (std::size_t text = 0; text < batch.batch_size; ++text) {
    Text one(*this, batch, text);
    const Text& read = one;
    const Rows rows = std::move(one).through_layers();
    for (const std::vector<double>& row : rows)
      results.hidden_states.insert(results.hidden_states.end(), row.begin(), row.end());
    if (settings.pooling == Pooling::cls && rows.empty()) continue;
    const std::vector<double> vector = read.pooled(rows);
    results.vectors.insert(results.vectors.end(), vector.begin(), vector.end());
  }
  return results;
}

Weights PlainEncoder::weights(Precision precision) const {
  Weights all = settings;
  for (const PlainLayer& layer : layers) {
    const auto [query_key_value, others] = layer_precision(precision, layers.size() - all.layers.size() - 1);
    all.layers.push_back({.query_key_value = packed(layer.query_key_value, query_key_value),
                          .attention_output = packed(layer.attention_output, others),
                          .attention_sum_norm = layer.attention_sum_norm,
                          .up_projection = packed(layer.up_projection, others),
                          .down_projection = packed(layer.down_projection, others),
                          .feed_forward_sum_norm = layer.feed_forward_sum_norm,
                          .score_scale = score_scale});
  }
  return all;
}

PlainEncoder random_encoder(const PlainSizes& sizes, std::mt19937_64& engine) {
  const auto values = [&](std::size_t count, float spread, float middle = 0) {
    return random_values(count, spread, middle, engine);
  };
  const auto linear = [&](std::size_t inner, std::size_t columns) {
    return PlainLinear{inner, columns, values(inner * columns, 0.15F), values(columns, 0.1F)};
  };
  const auto norm = [&] { return Norm{values(sizes.hidden_size, 0.1F, 1), values(sizes.hidden_size, 0.1F), 1e-12F}; };
  PlainEncoder made;
  Weights& settings = made.settings;
  settings.hidden_size = sizes.hidden_size;
  settings.num_heads = settings.num_kv_heads = sizes.num_heads;
  settings.head_size = sizes.hidden_size / sizes.num_heads;
  settings.embedding_size = sizes.hidden_size;
  settings.word_embeddings = values(sizes.vocabulary_size * sizes.hidden_size, 1);
  settings.position_embeddings = values(sizes.positions * sizes.hidden_size, 0.5F);
  settings.token_type_embeddings = values(sizes.token_types * sizes.hidden_size, 0.5F);
  settings.embedding_norm = norm();
  for (std::size_t i = 0; i < sizes.layers; ++i) {
    made.layers.push_back({linear(sizes.hidden_size, 3 * sizes.hidden_size),
                           linear(sizes.hidden_size, sizes.hidden_size),
                           linear(sizes.hidden_size, sizes.intermediate_size),
                           linear(sizes.intermediate_size, sizes.hidden_size), norm(), norm()});
  }
  const std::size_t head_size = sizes.hidden_size / sizes.num_heads;
  made.score_scale = 1 / std::sqrt(static_cast<float>(head_size));
  return made;
}

}  // namespace gpux_encoder
