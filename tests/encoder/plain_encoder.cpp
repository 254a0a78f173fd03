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
  const double share = 1 / std::sqrt(variance + static_cast<double>(norm.epsilon));
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] =
        (row[i] - mean) * share * static_cast<double>(norm.gamma.data()[i]) + static_cast<double>(norm.beta.data()[i]);
  }
}

void add_and_normalize(const Norm& norm, const Rows& added, Rows& rows) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t i = 0; i < rows[row].size(); ++i) rows[row][i] += added[row][i];
    normalize(norm, rows[row]);
  }
}

void to_shares(std::vector<double>& scores, bool nothing_if_all) {
  const double largest = *std::ranges::max_element(scores);
  if (std::isinf(largest)) {
    std::ranges::fill(scores, nothing_if_all ? 0.0 : nan);
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
      : encoder_(encoder), settings_(encoder.settings), length_(batch.length), counts_(batch.length, true) {
    const std::int64_t* const ids = batch.ids + text * length_;
    for (std::size_t place = 0; place < length_; ++place) {
      if (settings_.masked_id) counts_[place] = ids[place] != *settings_.masked_id;
      if (batch.mask != nullptr && !settings_.masked_id) counts_[place] = batch.mask[text * length_ + place] != 0;
    }
    counted_ = static_cast<std::size_t>(std::ranges::count(counts_, true));
    if (settings_.mask_from_front) {
      for (std::size_t place = 0; place < length_; ++place) counts_[place] = place < counted_;
    }
    std::size_t tokens = 0;
    for (std::size_t place = 0; place < length_; ++place) {
      const bool is_token = !settings_.padding || ids[place] != *settings_.padding;
      if (is_token) ++tokens;
      const std::size_t position = !settings_.padding ? place : is_token ? tokens : 0;
      const std::int64_t type = batch.types == nullptr ? 0 : batch.types[text * length_ + place];
      embed(static_cast<std::size_t>(ids[place]), position, static_cast<std::size_t>(type));
    }
  }

  Rows through_layers() && {
    for (const PlainLayer& layer : encoder_.layers) {
      add_and_normalize(layer.attention_norm, product(layer.attention_out, attended(layer)), rows_);
      Rows wide = product(layer.up_projection, rows_);
      for (std::vector<double>& row : wide) {
        for (double& x : row) x = 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
      }
      add_and_normalize(layer.output_norm, product(layer.down_projection, wide), rows_);
    }
    return std::move(rows_);
  }

  [[nodiscard]] std::vector<double> pooled(const Rows& rows) const {
    std::vector<double> vector(settings_.hidden, 0);
    if (settings_.pooling == Pooling::cls) {
      vector = rows.front();
    } else {
      for (std::size_t place = 0; place < length_; ++place) {
        for (std::size_t i = 0; i < vector.size(); ++i) vector[i] += rows[place][i] * (counts_[place] ? 1 : 0);
      }
      for (double& value : vector) value /= std::max(static_cast<double>(counted_), 1e-9);
    }
    if (!settings_.normalize) return vector;
    double squares = 0;
    for (const double value : vector) squares += value * value;
    for (double& value : vector) value /= std::isnan(squares) ? nan : std::max(std::sqrt(squares), 1e-12);
    return vector;
  }

 private:
  void embed(std::size_t id, std::size_t position, std::size_t type) {
    const std::size_t hidden = settings_.hidden;
    std::vector<double>& row = rows_.emplace_back(hidden);
    for (std::size_t i = 0; i < hidden; ++i) {
      row[i] = static_cast<double>(settings_.words.data()[id * hidden + i]) +
               static_cast<double>(settings_.positions.data()[position * hidden + i]);
      if (!settings_.types.empty()) row[i] += static_cast<double>(settings_.types.data()[type * hidden + i]);
    }
    normalize(settings_.embedding_norm, row);
  }

  [[nodiscard]] Rows attended(const PlainLayer& layer) const {
    const std::size_t hidden = settings_.hidden, width = hidden / settings_.heads;
    const Rows all = product(layer.query_key_value, rows_);
    Rows mixed(length_, std::vector<double>(hidden, 0));
    for (std::size_t head = 0; head < settings_.heads; ++head) {
      for (std::size_t query = 0; query < length_; ++query) {
        std::vector<double> shares;
        for (std::size_t key = 0; key < length_; ++key) {
          double score = 0;
          for (std::size_t i = head * width; i < (head + 1) * width; ++i) score += all[query][i] * all[key][hidden + i];
          shares.push_back(masked(score * static_cast<double>(encoder_.score_scale) + relative(head, query, key), key));
        }
        to_shares(shares, settings_.hidden_keys.nothing_if_all);
        for (std::size_t key = 0; key < length_; ++key) {
          for (std::size_t i = head * width; i < (head + 1) * width; ++i) {
            mixed[query][i] += shares[key] * all[key][2 * hidden + i];
          }
        }
      }
    }
    return mixed;
  }

  [[nodiscard]] double relative(std::size_t head, std::size_t query, std::size_t key) const {
    const std::size_t places = settings_.relative_places;
    if (settings_.relative.empty()) return 0;
    return static_cast<double>(settings_.relative.data()[(head * places + query) * places + key]);
  }

  // In float32, as graphs compute it: beside a number as large as -3e38 nothing is left of a score.
  [[nodiscard]] double masked(double score, std::size_t key) const {
    if (counts_[key]) return score;
    const HiddenKeys& keys = settings_.hidden_keys;
    return static_cast<double>(keys.replaces ? keys.score : static_cast<float>(score) + keys.score);
  }

  const PlainEncoder& encoder_;
  const Weights& settings_;
  const std::size_t length_;
  std::vector<bool> counts_;
  std::size_t counted_ = 0;
  Rows rows_;
};

Linear packed(const PlainLinear& linear, Precision precision) {
  const PlainWeights plain{linear.weights.data(), linear.inner, linear.columns, false};
  return {precision, std::span(&plain, 1), linear.bias};
}

}  // namespace

PlainEncoder::Results PlainEncoder::run(const Batch& batch) const {
  Results results;
  for (std::size_t text = 0; text < batch.texts; ++text) {
    Text one(*this, batch, text);
    const Text& read = one;
    const Rows rows = std::move(one).through_layers();
    for (const std::vector<double>& row : rows) results.hidden.insert(results.hidden.end(), row.begin(), row.end());
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
                          .attention_out = packed(layer.attention_out, others),
                          .attention_norm = layer.attention_norm,
                          .up_projection = packed(layer.up_projection, others),
                          .down_projection = packed(layer.down_projection, others),
                          .output_norm = layer.output_norm,
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
  const auto norm = [&] { return Norm{values(sizes.hidden, 0.1F, 1), values(sizes.hidden, 0.1F), 1e-12F}; };
  PlainEncoder made;
  Weights& settings = made.settings;
  settings.hidden = sizes.hidden;
  settings.heads = sizes.heads;
  settings.words = values(sizes.vocabulary * sizes.hidden, 1);
  settings.positions = values(sizes.positions * sizes.hidden, 0.5F);
  settings.types = values(sizes.types * sizes.hidden, 0.5F);
  settings.embedding_norm = norm();
  for (std::size_t i = 0; i < sizes.layers; ++i) {
    made.layers.push_back({linear(sizes.hidden, 3 * sizes.hidden), linear(sizes.hidden, sizes.hidden),
                           linear(sizes.hidden, sizes.wide), linear(sizes.wide, sizes.hidden), norm(), norm()});
  }
  made.score_scale = 1 / std::sqrt(static_cast<float>(sizes.hidden / sizes.heads));
  return made;
}

}  // namespace gpux_encoder
