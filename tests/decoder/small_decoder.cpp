#include "small_decoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

namespace gpux_cpu::decoder {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  std::vector<float> values(std::size_t count, float spread, float middle = 0) {
    std::normal_distribution<float> normal(middle, spread);
    std::vector<float> values(count);
    for (float& value : values) value = normal(engine_);
    return values;
  }

  std::vector<std::uint8_t> bytes(std::size_t count) {
    std::vector<std::uint8_t> bytes(count);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(engine_());
    return bytes;
  }

 private:
  std::mt19937 engine_;
};

class Maker {
 public:
  Maker(const SmallDecoder& sizes, unsigned seed) : sizes_(sizes), random_(seed) {}

  DecoderWeights make() {
    DecoderWeights weights{.hidden_size = sizes_.hidden_size,
                           .heads = sizes_.heads,
                           .kv_heads = sizes_.kv_heads,
                           .head_size = sizes_.head_size,
                           .vocabulary = sizes_.vocabulary,
                           .max_positions = sizes_.max_positions,
                           .cache_form = sizes_.cache_form,
                           .token_scale = sizes_.token_scale,
                           .logit_divisor = sizes_.logit_divisor,
                           .logit_soft_cap = sizes_.logit_soft_cap};
    if (sizes_.rotary_dimensions > 0) {
      std::vector<float> frequencies(sizes_.rotary_dimensions / 2);
      for (std::size_t i = 0; i < frequencies.size(); ++i) {
        frequencies[i] = std::pow(0.01F, static_cast<float>(i) / static_cast<float>(frequencies.size()));
      }
      weights.rotary_tables.push_back(make_rotary_table(frequencies, sizes_.max_positions, sizes_.interleaved, 1));
    }
    if (sizes_.has_position_table) {
      weights.positions = SharedArray<float>(random_.values(sizes_.max_positions * sizes_.hidden_size, 0.5F));
    }
    for (std::size_t i = 0; i < sizes_.layers; ++i) weights.layers.push_back(layer(i));
    weights.final_norm = norm(sizes_.hidden_size);
    weights.language_head = projection(sizes_.hidden_size, sizes_.vocabulary);
    if (sizes_.ties_tokens) {
      weights.tokens = weights.language_head;
    } else {
      weights.tokens = SharedArray<float>(random_.values(sizes_.vocabulary * sizes_.hidden_size, 1));
    }
    return weights;
  }

 private:
  Norm norm(std::size_t size) { return {random_.values(size, 0.2F, 1), {}, 1e-6F, NormKind::rms_norm}; }

  std::optional<Norm> norm_if(bool is_there, std::size_t size) {
    return is_there ? std::optional(norm(size)) : std::nullopt;
  }

  Projection projection(std::size_t inner, std::size_t columns) { return projection(sizes_.weights, inner, columns); }

  // Of a value or a gate.
  Projection other_projection(std::size_t inner, std::size_t columns) {
    const std::string& kind = sizes_.value_and_gate_weights;
    return projection(kind.empty() ? sizes_.weights : kind, inner, columns);
  }

  Projection projection(const std::string& kind, std::size_t inner, std::size_t columns) {
    const std::vector<float> bias = sizes_.has_biases ? random_.values(columns, 0.3F) : std::vector<float>();
    const float spread = 1.5F / std::sqrt(static_cast<float>(inner));
    if (kind.starts_with("int")) {
      QuantizedColumns part{.bits = kind[3] == '4' ? 4U : 8U,
                            .block_size = static_cast<std::size_t>(std::stoul(kind.substr(5))),
                            .inner = inner,
                            .columns = columns};
      const std::size_t blocks = part.blocks();
      const std::vector<std::uint8_t> values = random_.bytes(columns * blocks * part.block_size * part.bits / 8);
      std::vector<float> scales = random_.values(columns * blocks, 0.2F, 1);
      for (float& scale : scales) scale *= spread / (part.bits == 4 ? 4.6F : 74);
      const std::vector<std::uint8_t> points = random_.bytes(columns * ((blocks * part.bits + 7) / 8));
      std::vector<float> minimums;
      part.values = values.data();
      part.scales = scales.data();
      if (kind.ends_with("z")) part.zero_points = points.data();
      if (kind.ends_with("m")) {
        minimums = random_.values(columns * blocks, 0.1F * spread);
        part.minimums = minimums.data();
      }
      return BlockLinear(std::span(&part, 1), bias);
    }
    std::vector<float> values = random_.values(inner * columns, spread);
    const PlainWeights plain{values.data(), inner, columns, false};
    if (kind.starts_with("stored")) {
      const bool is_half = kind == "stored-fp16";
      const std::uint32_t kept = is_half ? 0xFFFFE000 : 0xFFFF0000;
      for (float& value : values) {
        // The smallest numbers of float16 have fewer bits.
        value = std::abs(value) < 0x1p-14F ? 0 : std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & kept);
      }
      const auto type = small_float_of(std::span(&plain, 1));
      if (type != (is_half ? SmallFloat::float16 : SmallFloat::bfloat16)) throw std::logic_error(kind);
      return SmallFloatLinear(*type, std::span(&plain, 1), bias);
    }
    const auto precision = kind == "bf16" ? Precision::bf16 : Precision::fp32;
    return Linear(precision, std::span(&plain, 1), bias);
  }

  DecoderLayer layer(std::size_t index) {
    const std::size_t queries = sizes_.heads * sizes_.head_size, keys = sizes_.kv_heads * sizes_.head_size;
    const std::size_t hidden = sizes_.hidden_size;
    DecoderLayer layer;
    layer.attention_input_norm = norm(hidden);
    layer.attention_branch_norm = norm_if(sizes_.has_branch_norms, hidden);
    if (sizes_.splits_query_key_value) {
      for (const Projection& part :
           {projection(hidden, queries), projection(hidden, keys), other_projection(hidden, keys)}) {
        layer.query_key_value.push_back({part, layer.columns});
        layer.columns += part.padded_columns();
      }
      layer.key_column = layer.query_key_value[1].first_column;
      layer.value_column = layer.query_key_value[2].first_column;
    } else {
      layer.query_key_value.push_back({projection(hidden, queries + 2 * keys), 0});
      layer.columns = layer.query_key_value.front().projection.padded_columns();
      layer.key_column = queries;
      layer.value_column = queries + keys;
    }
    const bool normalizes_all = sizes_.normalizes_all_heads;
    layer.query_norm = norm_if(sizes_.normalizes_heads || normalizes_all, normalizes_all ? queries : sizes_.head_size);
    layer.key_norm = norm_if(sizes_.normalizes_heads || normalizes_all, normalizes_all ? keys : sizes_.head_size);
    layer.attention_branch_factor = sizes_.branch_factor;
    layer.feed_forward_branch_factor = 2 * sizes_.branch_factor - 1;
    if (sizes_.rotary_dimensions > 0) layer.rotary_table = 0;
    layer.rules = {.scale = 1.5F / std::sqrt(static_cast<float>(sizes_.head_size)),
                   .soft_cap = sizes_.soft_cap,
                   .window = index == 0 ? sizes_.window : 0};
    layer.attention_output = projection(queries, hidden);
    layer.feed_forward_input_norm = norm(hidden);
    layer.feed_forward_branch_norm = norm_if(sizes_.has_branch_norms, hidden);
    if (sizes_.is_gated) layer.gate = other_projection(hidden, sizes_.intermediate_size);
    layer.up = projection(hidden, sizes_.intermediate_size);
    layer.activation = sizes_.activation;
    layer.down = projection(sizes_.intermediate_size, hidden);
    return layer;
  }

  const SmallDecoder& sizes_;
  Random random_;
};

using Row = std::vector<double>;

Row product(const Projection& projection, const Row& x) {
  Row out(projection.columns());
  std::vector<float> column(x.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    projection.read_column(i, column.data());
    for (std::size_t k = 0; k < x.size(); ++k) out[i] += x[k] * column[k];
  }
  return out;
}

// Rows of zeros give the bias.
Row bias_of(const Projection& projection) {
  const KernelTables tables{block_kernels(), kernels()};
  FormattedRows rows;
  rows.resize(projection.format(), 1);
  const std::vector<float> zeros(projection.format().inner);
  rows.set(tables, 0, 0, zeros.size(), zeros.data());
  std::vector<float> out(projection.padded_columns());
  projection.multiply(tables, rows, 0, 1, 0, projection.panels(), out.data(), out.size());
  return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(projection.columns())};
}

Row applied(const Projection& projection, const Row& x) {
  Row out = product(projection, x);
  const Row bias = bias_of(projection);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += bias[i];
  return out;
}

Row normalized(const std::optional<Norm>& norm, Row x) {
  if (!norm) return x;
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(x.size()) + norm->epsilon);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= inverse * norm->gamma.data()[i];
  return x;
}

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::gelu:
      return x * (1 + std::erf(x / std::sqrt(2.0))) / 2;
    case Activation::tanh_gelu:
      return x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x))) / 2;
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::quick_gelu:
      return x / (1 + std::exp(-1.702 * x));
  }
  return x;
}

double capped(double value, float cap) {
  return cap > 0 ? cap * std::tanh(value / cap) : value;
}

class PlainDecoder {
 public:
  explicit PlainDecoder(const DecoderWeights& weights) : weights_(weights) {}

  Row logits(const std::vector<std::int64_t>& ids) {
    std::vector<Row> x;
    for (const std::int64_t id : ids) x.push_back(token(static_cast<std::size_t>(id), x.size()));
    for (const DecoderLayer& layer : weights_.layers) {
      attend(layer, x);
      for (Row& row : x) {
        add(row, normalized(layer.feed_forward_branch_norm, feed_forward(layer, row)),
            layer.feed_forward_branch_factor);
      }
    }
    Row logits = applied(weights_.language_head, normalized(weights_.final_norm, x.back()));
    for (double& logit : logits) logit = capped(logit / weights_.logit_divisor, weights_.logit_soft_cap);
    return logits;
  }

 private:
  static void add(Row& to, const Row& branch, float factor) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += branch[i] * factor;
  }

  [[nodiscard]] Row token(std::size_t id, std::size_t position) const {
    std::vector<float> row(weights_.hidden_size);
    if (const auto* table = std::get_if<SharedArray<float>>(&weights_.tokens)) {
      std::copy_n(table->data() + id * row.size(), row.size(), row.begin());
    } else {
      std::get<Projection>(weights_.tokens).read_column(id, row.data());
    }
    Row x(row.begin(), row.end());
    for (double& value : x) value *= weights_.token_scale;
    for (std::size_t i = 0; i < x.size() && !weights_.positions.empty(); ++i) {
      x[i] += weights_.positions.data()[position * x.size() + i];
    }
    return x;
  }

  static Row feed_forward(const DecoderLayer& layer, const Row& x) {
    const Row input = normalized(layer.feed_forward_input_norm, x), up = applied(layer.up, input);
    Row inner(up.size());
    const Row gate = layer.gate ? applied(*layer.gate, input) : up;
    for (std::size_t i = 0; i < inner.size(); ++i) {
      inner[i] = activated(layer.activation, gate[i]) * (layer.gate ? up[i] : 1);
    }
    return applied(layer.down, inner);
  }

  // Rows of query, key and value, heads next to each other.
  [[nodiscard]] Row query_key_value(const DecoderLayer& layer, const Row& x) const {
    Row all(layer.columns);
    for (const PlacedProjection& placed : layer.query_key_value) {
      const Row part = applied(placed.projection, x);
      std::copy(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(placed.first_column));
    }
    normalize_all(layer.query_norm, layer.query_column, all);
    normalize_all(layer.key_norm, layer.key_column, all);
    return all;
  }

  // A norm of all heads together.
  void normalize_all(const std::optional<Norm>& norm, std::size_t column, Row& all) const {
    if (!norm || norm->gamma.size() == weights_.head_size) return;
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(column);
    const Row made = normalized(norm, Row(first, first + static_cast<std::ptrdiff_t>(norm->gamma.size())));
    std::copy(made.begin(), made.end(), first);
  }

  [[nodiscard]] Row head(const DecoderLayer& layer, const Row& row, std::size_t column, const std::optional<Norm>& norm,
                         std::size_t position) const {
    const auto first = row.begin() + static_cast<std::ptrdiff_t>(column);
    Row head(first, first + static_cast<std::ptrdiff_t>(weights_.head_size));
    if (norm && norm->gamma.size() == weights_.head_size) head = normalized(norm, std::move(head));
    if (!layer.rotary_table) return head;
    const RotaryTable& table = weights_.rotary_tables[*layer.rotary_table];
    const std::size_t pairs = table.dimensions / 2;
    for (std::size_t i = 0; i < pairs; ++i) {
      double& a = head[table.interleaved ? 2 * i : i];
      double& b = head[table.interleaved ? 2 * i + 1 : i + pairs];
      const double cosine = table.cosines.data()[position * pairs + i], sine = table.sines.data()[position * pairs + i];
      const double rotated = a * cosine - b * sine;
      b = b * cosine + a * sine;
      a = rotated;
    }
    return head;
  }

  void attend(const DecoderLayer& layer, std::vector<Row>& x) const {
    const std::size_t size = weights_.head_size, group = weights_.heads / weights_.kv_heads;
    std::vector<Row> rows;
    for (const Row& row : x) rows.push_back(query_key_value(layer, normalized(layer.attention_input_norm, row)));
    for (std::size_t position = 0; position < x.size(); ++position) {
      Row attended(weights_.heads * size);
      const std::size_t window = layer.rules.window;
      const std::size_t first = window == 0 || position < window ? 0 : position + 1 - window;
      for (std::size_t i = 0; i < weights_.heads; ++i) {
        const Row query = head(layer, rows[position], layer.query_column + i * size, layer.query_norm, position);
        Row shares;
        double sum = 0;
        for (std::size_t key = first; key <= position; ++key) {
          const Row keys = head(layer, rows[key], layer.key_column + i / group * size, layer.key_norm, key);
          double score = 0;
          for (std::size_t d = 0; d < size; ++d) score += query[d] * keys[d];
          shares.push_back(std::exp(capped(score * layer.rules.scale, layer.rules.soft_cap)));
          sum += shares.back();
        }
        for (std::size_t key = first; key <= position; ++key) {
          for (std::size_t d = 0; d < size; ++d) {
            attended[i * size + d] += shares[key - first] / sum * rows[key][layer.value_column + i / group * size + d];
          }
        }
      }
      add(x[position], normalized(layer.attention_branch_norm, applied(layer.attention_output, attended)),
          layer.attention_branch_factor);
    }
  }

  const DecoderWeights& weights_;
};

}  // namespace

DecoderWeights random_weights(const SmallDecoder& sizes, unsigned seed) {
  return Maker(sizes, seed).make();
}

std::vector<SmallDecoder> small_decoders() {
  return {
      {.name = "fp32"},
      {.name = "bf16", .weights = "bf16", .has_biases = true},
      {.name = "int4_32", .weights = "int4-32", .ties_tokens = true},
      {.name = "int4_128_zero_points", .hidden_size = 160, .intermediate_size = 200, .weights = "int4-128-z"},
      {.name = "int8_32", .weights = "int8-32", .cache_form = CacheForm::float16, .has_biases = true},
      {.name = "int8_16_zero_points", .weights = "int8-16-z", .splits_query_key_value = true},
      {.name = "int4_32_minimums", .weights = "int4-32-m", .has_biases = true, .ties_tokens = true},
      {.name = "mixed", .weights = "int4-32-m", .value_and_gate_weights = "int8-16", .splits_query_key_value = true},
      {.name = "stored_bf16", .weights = "stored-bf16", .has_biases = true, .ties_tokens = true},
      {.name = "stored_fp16", .weights = "stored-fp16"},
      {.name = "blocks_and_floats",
       .weights = "int8-32",
       .value_and_gate_weights = "fp32",
       .splits_query_key_value = true},
      {.name = "half_cache", .cache_form = CacheForm::float16},
      {.name = "int8_cache", .head_size = 32, .cache_form = CacheForm::int8},
      {.name = "int8_cache_of_48", .head_size = 48, .weights = "int4-32", .cache_form = CacheForm::int8, .window = 70},
      {.name = "one_head", .heads = 1, .kv_heads = 1, .head_size = 64},
      {.name = "many_heads", .heads = 6, .kv_heads = 6, .head_size = 20, .hidden_size = 70, .rotary_dimensions = 8},
      {.name = "gemma",
       .weights = "int4-32",
       .normalizes_heads = true,
       .has_branch_norms = true,
       .ties_tokens = true,
       .window = 9,
       .soft_cap = 3,
       .logit_soft_cap = 5,
       .token_scale = 8,
       .activation = Activation::tanh_gelu},
      {.name = "window_of_one", .window = 1},
      {.name = "interleaved", .rotary_dimensions = 10, .interleaved = true, .window = 70},
      {.name = "without_gate", .is_gated = false, .splits_query_key_value = true, .activation = Activation::relu},
      {.name = "olmo2", .weights = "int8-32", .has_branch_norms = true, .normalizes_all_heads = true},
      {.name = "granite", .weights = "int4-32", .token_scale = 12, .branch_factor = 0.7F, .logit_divisor = 8},
      {.name = "gpt2",
       .rotary_dimensions = 0,
       .is_gated = false,
       .has_biases = true,
       .activation = Activation::tanh_gelu,
       .has_position_table = true},
      {.name = "without_positions", .weights = "bf16", .rotary_dimensions = 0, .activation = Activation::gelu}};
}

CachedRow::CachedRow(const Decoder& decoder, std::size_t capacity) {
  const DecoderWeights& weights = decoder.weights();
  const std::size_t bytes = weights.kv_heads * capacity * cache_row_bytes(weights.cache_form, weights.head_size);
  // What is behind the tokens is NaN: it must not be read.
  values.assign(2 * weights.layers.size(), std::vector<std::byte>(bytes, std::byte{0xFF}));
}

void on_threads(std::size_t parts, const std::function<void(std::size_t)>& work) {
  std::vector<std::exception_ptr> failures(parts);
  const auto run = [&](std::size_t part) noexcept {
    try {
      work(part);
    } catch (...) {
      failures[part] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t part = 1; part < parts; ++part) threads.emplace_back(run, part);
  run(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

std::vector<std::vector<float>> append(const Decoder& decoder, const std::vector<CachedRow*>& rows,
                                       const std::vector<std::vector<std::int64_t>>& ids, std::size_t capacity,
                                       const RunSettings& settings) {
  const DecoderWeights& weights = decoder.weights();
  const std::size_t batch = rows.size(), sequence = ids.front().size();
  std::size_t most = 0;
  for (const CachedRow* const row : rows) most = std::max(most, row->tokens);
  const std::size_t total = most + sequence, length = settings.shares_memory ? capacity : most;
  const std::size_t present_length = std::max(length, total);
  std::vector<std::int64_t> all_ids, mask(batch * total, 0);
  for (std::size_t row = 0; row < batch; ++row) {
    all_ids.insert(all_ids.end(), ids[row].begin(), ids[row].end());
    std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(row * total), rows[row]->tokens + sequence, 1);
  }
  const std::size_t position_bytes = cache_row_bytes(weights.cache_form, weights.head_size);
  std::vector<std::vector<std::byte>> pasts, presents;
  DecoderBatch given{.batch = batch,
                     .sequence = sequence,
                     .total = total,
                     .input_ids = all_ids.data(),
                     .attention_mask = mask.data(),
                     .past_length = length,
                     .present_length = present_length};
  const auto at = [&](std::size_t row, std::size_t head, std::size_t positions) {
    return (row * weights.kv_heads + head) * positions * position_bytes;
  };
  for (std::size_t value = 0; value < 2 * weights.layers.size(); ++value) {
    auto& past = pasts.emplace_back(batch * weights.kv_heads * length * position_bytes, std::byte{0xFF});
    presents.emplace_back(batch * weights.kv_heads * present_length * position_bytes, std::byte{0xFF});
    for (std::size_t row = 0; row < batch; ++row) {
      for (std::size_t head = 0; head < weights.kv_heads; ++head) {
        std::copy_n(rows[row]->values[value].begin() + static_cast<std::ptrdiff_t>(at(0, head, capacity)),
                    rows[row]->tokens * position_bytes,
                    past.begin() + static_cast<std::ptrdiff_t>(at(row, head, length)));
      }
    }
  }
  auto& results = settings.shares_memory ? pasts : presents;
  for (std::size_t value = 0; value < pasts.size(); value += 2) {
    given.layers.push_back(
        {pasts[value].data(), pasts[value + 1].data(), results[value].data(), results[value + 1].data()});
  }
  std::vector<float> logits(batch * weights.vocabulary);
  given.logits = logits.data();
  decoder.run(given, settings.threads, on_threads, nullptr);
  std::vector<std::vector<float>> all;
  for (std::size_t row = 0; row < batch; ++row) {
    for (std::size_t value = 0; value < results.size(); ++value) {
      for (std::size_t head = 0; head < weights.kv_heads; ++head) {
        std::copy_n(results[value].begin() + static_cast<std::ptrdiff_t>(at(row, head, present_length)),
                    (rows[row]->tokens + sequence) * position_bytes,
                    rows[row]->values[value].begin() + static_cast<std::ptrdiff_t>(at(0, head, capacity)));
      }
    }
    rows[row]->tokens += sequence;
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(row * weights.vocabulary);
    all.emplace_back(first, first + static_cast<std::ptrdiff_t>(weights.vocabulary));
  }
  return all;
}

std::vector<double> plain_logits(const DecoderWeights& weights, const std::vector<std::int64_t>& ids) {
  return PlainDecoder(weights).logits(ids);
}

}  // namespace gpux_cpu::decoder
