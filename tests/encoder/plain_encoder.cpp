#include "encoder/plain_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

#include "encoder/architectures.h"

namespace gpux_cpu::encoder {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double at(const SharedArray<float>& array, std::size_t index) {
  return static_cast<double>(array.data()[index]);
}

Rows product(const PlainLinear& linear, const Rows& rows) {
  Rows out;
  for (const Row& row : rows) {
    Row& sums = out.emplace_back(linear.bias.begin(), linear.bias.end());
    for (std::size_t k = 0; k < linear.inner; ++k) {
      for (std::size_t column = 0; column < linear.columns; ++column) {
        sums[column] += row[k] * static_cast<double>(linear.weights[k * linear.columns + column]);
      }
    }
  }
  return out;
}

void normalize(const Norm& norm, std::span<double> row) {
  const auto count = static_cast<double>(row.size());
  const bool has_mean = norm.kind == NormKind::layer_norm;
  const double mean = has_mean ? std::accumulate(row.begin(), row.end(), 0.0) / count : 0;
  double variance = 0;
  for (const double value : row) variance += (value - mean) * (value - mean) / count;
  const double inverse_deviation = 1 / std::sqrt(variance + static_cast<double>(norm.epsilon));
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = (row[i] - mean) * inverse_deviation * at(norm.gamma, i) + (norm.beta.empty() ? 0 : at(norm.beta, i));
  }
}

void normalize(const std::optional<Norm>& norm, Rows& rows) {
  if (!norm) return;
  for (Row& row : rows) normalize(*norm, row);
}

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::gelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::tanh_gelu:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::relu:
      return std::isnan(x) ? x : std::max(x, 0.0);
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::quick_gelu:
      break;
  }
  return x / (1 + std::exp(-1.702 * x));
}

void to_probabilities(Row& scores, bool zero_if_all_masked) {
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
    for (std::size_t position = 0; position < length_; ++position) {
      position_ids_.push_back(position_id(batch, text, position));
      const std::int64_t type = batch.token_type_ids == nullptr ? 0 : batch.token_type_ids[text * length_ + position];
      add_embeddings(static_cast<std::size_t>(ids[position]), position_ids_.back(), static_cast<std::size_t>(type));
    }
    normalize(settings_.embedding_norm, rows_);
    if (encoder.embedding_projection) rows_ = product(*encoder.embedding_projection, rows_);
    normalize(settings_.projected_embedding_norm, rows_);
    for (std::size_t position = 0; position < length_; ++position) {
      if (settings_.zero_masked_embeddings && !is_unmasked_[position]) std::ranges::fill(rows_[position], 0.0);
    }
  }

  Rows through_layers() && {
    for (const PlainLayer& layer : encoder_.layers) {
      const Layer& settings = layer.settings;
      Rows branch = rows_;
      normalize(settings.attention_input_norm, branch);
      add_branch(product(layer.attention_output, attended(layer, branch)), settings.attention_branch_norm,
                 settings.attention_sum_norm);
      branch = rows_;
      normalize(settings.feed_forward_input_norm, branch);
      Rows wide = product(layer.up_projection, branch);
      for (Row& row : wide) activate(layer, row);
      add_branch(product(layer.down_projection, wide), settings.feed_forward_branch_norm,
                 settings.feed_forward_sum_norm);
    }
    normalize(settings_.final_norm, rows_);
    return std::move(rows_);
  }

  [[nodiscard]] Row pooled(const Rows& rows) const {
    Row vector = settings_.pooling == Pooling::splade ? splade(rows) : pooled_row(rows);
    if (!settings_.normalize) return vector;
    double squares = 0;
    for (const double value : vector) squares += value * value;
    for (double& value : vector) value /= std::isnan(squares) ? nan : std::max(std::sqrt(squares), 1e-12);
    return vector;
  }

 private:
  [[nodiscard]] std::size_t position_id(const Batch& batch, std::size_t text, std::size_t position) {
    const std::int64_t* const ids = batch.input_ids + text * length_;
    switch (settings_.position_ids) {
      case PositionIds::index:
        break;
      case PositionIds::from_pad_token:
        return ids[position] == settings_.pad_token_id ? 0 : ++counted_;
      case PositionIds::from_mask:
        return is_unmasked_[position] ? counted_++ : static_cast<std::size_t>(settings_.masked_position_id);
      case PositionIds::input:
        return static_cast<std::size_t>(batch.position_ids[text * length_ + position]);
    }
    return position;
  }

  void add_embeddings(std::size_t id, std::size_t position, std::size_t type) {
    const std::size_t size = settings_.embedding_size;
    Row& row = rows_.emplace_back(size);
    for (std::size_t i = 0; i < size; ++i) {
      row[i] = at(settings_.word_embeddings, id * size + i) * static_cast<double>(settings_.embedding_scale);
      if (!settings_.position_embeddings.empty()) row[i] += at(settings_.position_embeddings, position * size + i);
      if (!settings_.token_type_embeddings.empty()) row[i] += at(settings_.token_type_embeddings, type * size + i);
    }
  }

  void add_branch(Rows branch, const std::optional<Norm>& branch_norm, const std::optional<Norm>& sum_norm) {
    normalize(branch_norm, branch);
    for (std::size_t row = 0; row < length_; ++row) {
      for (std::size_t i = 0; i < settings_.hidden_size; ++i) rows_[row][i] += branch[row][i];
    }
    normalize(sum_norm, rows_);
  }

  static void activate(const PlainLayer& layer, Row& row) {
    const std::size_t size = layer.down_projection.inner;
    for (std::size_t i = 0; i < size; ++i) {
      row[i] = activated(layer.settings.activation, row[i]) * (layer.settings.gated ? row[size + i] : 1);
    }
    row.resize(size);
  }

  // Norms of the heads of `heads` heads from `first` on.
  void normalize_heads(const std::optional<Norm>& norm, std::size_t first, std::size_t heads, Rows& rows) const {
    if (!norm) return;
    const std::size_t size = norm->gamma.size();
    for (Row& row : rows) {
      for (std::size_t i = 0; i < heads * settings_.head_size; i += size) {
        normalize(*norm, std::span(row).subspan(first + i, size));
      }
    }
  }

  void rotate(const RotaryTable& table, Rows& rows) const {
    const std::size_t pairs = table.dimensions / 2, heads = settings_.num_heads + settings_.num_kv_heads;
    for (std::size_t position = 0; position < length_; ++position) {
      for (std::size_t head = 0; head < heads; ++head) {
        for (std::size_t pair = 0; pair < pairs; ++pair) {
          const std::size_t begin = head * settings_.head_size;
          double& a = rows[position][begin + (table.interleaved ? 2 * pair : pair)];
          double& b = rows[position][begin + (table.interleaved ? 2 * pair + 1 : pair + pairs)];
          const double cosine = at(table.cosines, position_ids_[position] * pairs + pair);
          const double sine = at(table.sines, position_ids_[position] * pairs + pair);
          const double turned = a * cosine - b * sine;
          b = b * cosine + a * sine;
          a = turned;
        }
      }
    }
  }

  [[nodiscard]] bool attends(const Layer& layer, std::size_t query, std::size_t key) const {
    if (!is_unmasked_[key] || (settings_.mask_excludes_queries && !is_unmasked_[query])) return false;
    if (layer.causal && key > query) return false;
    return !layer.window || (key + layer.window->left >= query && key <= query + layer.window->right);
  }

  [[nodiscard]] Rows attended(const PlainLayer& layer, const Rows& rows) const {
    const std::size_t head_size = settings_.head_size, num_heads = settings_.num_heads;
    const std::size_t group = num_heads / settings_.num_kv_heads, first_key = num_heads * head_size,
                      first_value = first_key + settings_.num_kv_heads * head_size;
    Rows all = product(layer.query_key_value, rows);
    normalize_heads(layer.settings.query_norm, 0, num_heads, all);
    normalize_heads(layer.settings.key_norm, first_key, settings_.num_kv_heads, all);
    if (layer.settings.rotary_table) rotate(settings_.rotary_tables[*layer.settings.rotary_table], all);
    Rows context(length_, Row(num_heads * head_size, 0));
    for (std::size_t head = 0; head < num_heads; ++head) {
      const std::size_t key_head = head / group;
      for (std::size_t query = 0; query < length_; ++query) {
        std::vector<std::size_t> keys;
        for (std::size_t key = 0; key < length_; ++key) {
          if (attends(layer.settings, query, key)) keys.push_back(key);
        }
        const bool is_without_keys = keys.empty();
        if (is_without_keys) {
          keys.resize(length_);
          std::iota(keys.begin(), keys.end(), std::size_t{0});
        }
        Row probabilities;
        for (const std::size_t key : keys) {
          const double* const query_row = all[query].data() + head * head_size;
          const double* const key_row = all[key].data() + first_key + key_head * head_size;
          double score = relative_products(layer.settings, head, query, key, query_row, key_row);
          for (std::size_t i = 0; i < head_size; ++i) score += query_row[i] * key_row[i];
          score = score * static_cast<double>(layer.settings.score_scale) + position_bias(head, query, key);
          probabilities.push_back(is_without_keys ? masked(score) : score);
        }
        to_probabilities(probabilities, settings_.masked_keys.zero_if_all_masked);
        for (std::size_t index = 0; index < keys.size(); ++index) {
          const double* const value = all[keys[index]].data() + first_value + key_head * head_size;
          for (std::size_t i = 0; i < head_size; ++i)
            context[query][head * head_size + i] += probabilities[index] * value[i];
        }
      }
    }
    return context;
  }

  [[nodiscard]] std::size_t by_distance(std::size_t query, std::size_t key) const {
    return key + settings_.max_relative_positions - 1 - query;
  }

  [[nodiscard]] double relative_products(const Layer& layer, std::size_t head, std::size_t query, std::size_t key,
                                         const double* query_row, const double* key_row) const {
    const std::size_t head_size = settings_.head_size;
    const auto product_with = [&](const SharedArray<float>& rows, const double* row) {
      if (rows.empty()) return 0.0;
      const std::size_t buckets = rows.size() / (settings_.num_heads * head_size);
      const std::size_t bucket = settings_.relative_buckets.data()[by_distance(query, key)];
      double sum = 0;
      for (std::size_t i = 0; i < head_size; ++i) sum += row[i] * at(rows, (head * buckets + bucket) * head_size + i);
      return sum;
    };
    return product_with(layer.relative_keys, query_row) + product_with(layer.relative_queries, key_row);
  }

  [[nodiscard]] double position_bias(std::size_t head, std::size_t query, std::size_t key) const {
    double bias = 0;
    if (!settings_.relative_bias.empty()) {
      bias += at(settings_.relative_bias, head * (2 * settings_.max_relative_positions - 1) + by_distance(query, key));
    }
    const double distance = std::abs(static_cast<double>(query) - static_cast<double>(key));
    if (!settings_.alibi_slopes.empty()) bias -= at(settings_.alibi_slopes, head) * distance;
    return bias;
  }

  // In float32, as graphs compute it: beside a number as large as -3e38 nothing is left of a score.
  [[nodiscard]] double masked(double score) const {
    const MaskedKeys& keys = settings_.masked_keys;
    return static_cast<double>(keys.replaces ? keys.score : static_cast<float>(score) + keys.score);
  }

  [[nodiscard]] Row pooled_row(const Rows& rows) const {
    Row vector(settings_.hidden_size, 0);
    if (settings_.pooling == Pooling::cls) return rows.front();
    if (settings_.pooling == Pooling::last) {
      // The first token where all are masked, as in graphs.
      if (!rows.empty()) vector = rows.front();
      for (std::size_t position = 0; position < length_; ++position) {
        if (is_unmasked_[position]) vector = rows[position];
      }
      return vector;
    }
    for (std::size_t position = 0; position < length_; ++position) {
      // Masked rows may be NaN, which counts only if there are no others.
      if (!is_unmasked_[position] && unmasked_count_ > 0) continue;
      for (std::size_t i = 0; i < vector.size(); ++i) vector[i] += rows[position][i] * (is_unmasked_[position] ? 1 : 0);
    }
    for (double& value : vector) value /= std::max(static_cast<double>(unmasked_count_), 1e-9);
    return vector;
  }

  [[nodiscard]] Row splade(const Rows& rows) const {
    const PlainMaskedLmHead& head = *encoder_.masked_lm;
    Rows hidden = product(head.transform, rows);
    for (Row& row : hidden) {
      for (double& value : row) value = activated(head.activation, value);
    }
    normalize(head.norm, hidden);
    const Rows logits = product(head.decoder, hidden);
    Row vector(head.decoder.columns, 0);
    for (std::size_t position = 0; position < length_; ++position) {
      for (std::size_t i = 0; i < vector.size(); ++i) {
        if (is_unmasked_[position]) vector[i] = std::max(vector[i], std::log1p(std::max(logits[position][i], 0.0)));
      }
    }
    return vector;
  }

  const PlainEncoder& encoder_;
  const Weights& settings_;
  const std::size_t length_;
  std::vector<bool> is_unmasked_;
  std::size_t unmasked_count_ = 0, counted_ = 0;
  std::vector<std::size_t> position_ids_;
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
    for (const Row& row : rows) results.hidden_states.insert(results.hidden_states.end(), row.begin(), row.end());
    if (settings.pooling == Pooling::cls && rows.empty()) continue;
    const Row vector = read.pooled(rows);
    results.vectors.insert(results.vectors.end(), vector.begin(), vector.end());
  }
  return results;
}

Weights PlainEncoder::weights(Precision precision) const {
  Weights all = settings;
  const Precision products = layer_precision(precision, layers.size()).others;
  if (embedding_projection) all.embedding_projection = packed(*embedding_projection, products);
  if (masked_lm) {
    all.masked_lm = MaskedLmHead{packed(masked_lm->transform, products), masked_lm->activation, masked_lm->norm,
                                 packed(masked_lm->decoder, products)};
  }
  for (const PlainLayer& plain : layers) {
    const auto [query_key_value, others] = layer_precision(precision, layers.size() - all.layers.size() - 1);
    Layer& layer = all.layers.emplace_back(plain.settings);
    layer.query_key_value = packed(plain.query_key_value, query_key_value);
    layer.attention_output = packed(plain.attention_output, others);
    layer.up_projection = packed(plain.up_projection, others);
    layer.down_projection = packed(plain.down_projection, others);
  }
  return all;
}

PlainEncoder random_encoder(const PlainSizes& sizes, std::mt19937_64& engine) {
  Architecture bert{.sizes = sizes};
  bert.num_kv_heads = sizes.num_heads;
  bert.head_size = sizes.hidden_size / sizes.num_heads;
  bert.embedding_size = sizes.hidden_size;
  return made_encoder(bert, engine);
}

}  // namespace gpux_cpu::encoder
