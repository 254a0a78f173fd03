// Weights of a recognised decoder, as the kernels read them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "recognizer/graph_index.h"
#include "recognizer/recognized_decoder.h"

namespace gpux_cpu::decoder {
namespace {

// As fine as the blocks of other formats.
constexpr std::size_t int8_block_size = 32;

std::span<const float> floats_of(const Constant* constant) {
  if (constant == nullptr) return {};
  return {static_cast<const float*>(constant->data), constant->count()};
}

std::vector<float> copied(const Constant* constant) {
  const std::span<const float> floats = floats_of(constant);
  return {floats.begin(), floats.end()};
}

Norm packed(const RecognizedNorm& norm) {
  Norm made{.gamma = copied(norm.gamma), .beta = {}, .epsilon = norm.epsilon, .kind = norm.kind};
  if (norm.beta != nullptr) made.beta = copied(norm.beta);
  return made;
}

std::optional<Norm> packed(const std::optional<RecognizedNorm>& norm) {
  return norm ? std::optional(packed(*norm)) : std::nullopt;
}

// Of bytes and floats.
std::size_t element_size(const Constant& constant) {
  if (constant.element_type == ElementType::uint8) return 1;
  return has_small_floats(constant) ? sizeof(std::uint16_t) : sizeof(float);
}

bool is_same(const Constant* a, const Constant* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || a->element_type != b->element_type || a->count() != b->count()) return false;
  const std::size_t bytes = a->count() * element_size(*a);
  return a->data == b->data || std::memcmp(a->data, b->data, bytes) == 0;
}

// Also where constant folding has made a copy of one of them.
bool have_same_weights(const RecognizedMatrix& a, const RecognizedMatrix& b) {
  return a.bits == b.bits && a.block_size == b.block_size && a.inner == b.inner && a.columns == b.columns &&
         a.transposed == b.transposed && is_same(a.weights, b.weights) && is_same(a.values, b.values) &&
         is_same(a.scales, b.scales) && is_same(a.zero_points, b.zero_points) && is_same(a.minimums, b.minimums);
}

QuantizedColumns columns_of(const RecognizedMatrix& matrix) {
  return {.bits = matrix.bits,
          .block_size = matrix.block_size,
          .inner = matrix.inner,
          .columns = matrix.columns,
          .values = static_cast<const std::uint8_t*>(matrix.values->data),
          .scales = static_cast<const float*>(matrix.scales->data),
          .zero_points =
              matrix.zero_points == nullptr ? nullptr : static_cast<const std::uint8_t*>(matrix.zero_points->data),
          .minimums = floats_of(matrix.minimums).data()};
}

std::vector<float> biases_of(std::span<const RecognizedMatrix* const> parts) {
  const bool any = std::ranges::any_of(parts, [](const RecognizedMatrix* part) { return part->bias != nullptr; });
  std::vector<float> all;
  if (!any) return all;
  for (const RecognizedMatrix* const part : parts) {
    const std::span<const float> bias = floats_of(part->bias);
    all.insert(all.end(), bias.begin(), bias.end());
    if (bias.empty()) all.resize(all.size() + part->columns);
  }
  return all;
}

/// Weights of a matrix as float32, for as long as they are packed.
class Floats {
 public:
  explicit Floats(const RecognizedMatrix& matrix) : matrix_(matrix) {
    if (has_small_floats(*matrix.weights)) made_ = widened(*matrix.weights);
  }

  [[nodiscard]] PlainWeights plain() const {
    const float* const values = made_.empty() ? floats_of(matrix_.weights).data() : made_.data();
    return {values, matrix_.inner, matrix_.columns, matrix_.transposed};
  }

 private:
  const RecognizedMatrix& matrix_;
  std::vector<float> made_;
};

SmallWeights small_weights_of(const RecognizedMatrix& matrix) {
  return {static_cast<const std::uint16_t*>(matrix.weights->data), matrix.inner, matrix.columns, matrix.transposed};
}

SmallFloat type_of_small(const RecognizedMatrix& matrix) {
  return matrix.weights->element_type == ElementType::float16 ? SmallFloat::float16 : SmallFloat::bfloat16;
}

class Packer {
 public:
  explicit Packer(DecoderPrecision precision) : precision_(precision) {}

  /// Matrices next to each other: all of floats of one type, or all of blocks of the same kind.
  [[nodiscard]] Projection projection(std::span<const RecognizedMatrix* const> parts) const {
    const std::vector<float> bias = biases_of(parts);
    const RecognizedMatrix& first = *parts.front();
    if (first.weights == nullptr) {
      std::vector<QuantizedColumns> columns;
      for (const RecognizedMatrix* const part : parts) columns.push_back(columns_of(*part));
      return BlockLinear(columns, bias);
    }
    if (precision_ == DecoderPrecision::int8) return quantized(parts, bias);
    if (precision_ == DecoderPrecision::fp32 && has_small_floats(*first.weights)) {
      std::vector<SmallWeights> small;
      for (const RecognizedMatrix* const part : parts) small.push_back(small_weights_of(*part));
      return SmallFloatLinear(type_of_small(first), small, bias);
    }
    std::vector<Floats> floats;
    std::vector<PlainWeights> plain;
    for (const RecognizedMatrix* const part : parts) plain.push_back(floats.emplace_back(*part).plain());
    if (precision_ == DecoderPrecision::bf16) return Linear(Precision::bf16, plain, bias);
    if (const auto type = small_float_of(plain)) return SmallFloatLinear(*type, plain, bias);
    return Linear(Precision::fp32, plain, bias);
  }

  /// Floats of 32 bits stay as they are, row after row.
  [[nodiscard]] TokenTable tokens(const RecognizedMatrix& matrix) const {
    if (matrix.weights == nullptr) return projection(matrix);
    if (has_small_floats(*matrix.weights)) {
      const SmallWeights small = small_weights_of(matrix);
      return Projection(SmallFloatLinear(type_of_small(matrix), std::span(&small, 1), {}));
    }
    const PlainWeights plain{floats_of(matrix.weights).data(), matrix.inner, matrix.columns, matrix.transposed};
    if (const auto type = small_float_of(std::span(&plain, 1))) {
      return Projection(SmallFloatLinear(*type, std::span(&plain, 1), {}));
    }
    return SharedArray<float>(copied(matrix.weights));
  }

  [[nodiscard]] Projection projection(const RecognizedMatrix& matrix) const {
    const RecognizedMatrix* const part = &matrix;
    return projection(std::span(&part, 1));
  }

 private:
  [[nodiscard]] static Projection quantized(std::span<const RecognizedMatrix* const> parts,
                                            std::span<const float> bias) {
    std::vector<QuantizedMatrix> matrices;
    std::vector<QuantizedColumns> columns;
    for (const RecognizedMatrix* const part : parts) {
      const Floats floats(*part);
      matrices.push_back(
          quantize(floats.plain().values, part->inner, part->columns, !part->transposed, int8_block_size));
    }
    for (const QuantizedMatrix& matrix : matrices) columns.push_back(matrix.columns());
    return BlockLinear(columns, bias);
  }

  DecoderPrecision precision_;
};

bool are_of_one_kind(const RecognizedMatrix& a, const RecognizedMatrix& b) {
  if (a.bits != b.bits || a.block_size != b.block_size || (a.zero_points == nullptr) != (b.zero_points == nullptr) ||
      (a.minimums == nullptr) != (b.minimums == nullptr)) {
    return false;
  }
  if (a.weights != nullptr) return a.weights->element_type == b.weights->element_type;
  return BlockLinear::form_of(columns_of(a)) == BlockLinear::form_of(columns_of(b));
}

// Those next to each other whose weights are of one kind are one product.
void pack_query_key_value(const RecognizedDecoder& found, const RecognizedLayer& from, const Packer& packer,
                          DecoderLayer& to) {
  std::vector<const RecognizedMatrix*> parts{&from.query};
  if (from.key && from.value) parts.insert(parts.end(), {&*from.key, &*from.value});
  const std::array columns{&to.query_column, &to.key_column, &to.value_column};
  for (std::size_t first = 0, last = 0; first < parts.size(); first = last) {
    std::size_t column = to.columns;
    for (; last < parts.size() && are_of_one_kind(*parts[first], *parts[last]); ++last) {
      *columns[last] = column;
      column += parts[last]->columns;
    }
    to.query_key_value.push_back({packer.projection(std::span(parts).subspan(first, last - first)), to.columns});
    to.columns += to.query_key_value.back().projection.padded_columns();
  }
  if (parts.size() > 1) return;
  to.key_column = found.heads * found.head_size;
  to.value_column = to.key_column + found.kv_heads * found.head_size;
}

std::size_t rotary_table_of(const RecognizedRotary& rotary, std::vector<RecognizedRotary>& known,
                            DecoderWeights& weights) {
  const auto found = std::ranges::find(known, rotary);
  if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
  known.push_back(rotary);
  weights.rotary_tables.push_back({.dimensions = static_cast<std::size_t>(2 * rotary.cosines->shape[1]),
                                   .interleaved = rotary.interleaved,
                                   .cosines = copied(rotary.cosines),
                                   .sines = copied(rotary.sines)});
  const auto positions = static_cast<std::size_t>(rotary.cosines->shape[0]);
  weights.max_positions = weights.max_positions == 0 ? positions : std::min(weights.max_positions, positions);
  return known.size() - 1;
}

}  // namespace

DecoderWeights weights_of(const RecognizedDecoder& found, DecoderPrecision precision) {
  const Packer packer(precision);
  DecoderWeights weights{.hidden_size = found.hidden_size,
                         .heads = found.heads,
                         .kv_heads = found.kv_heads,
                         .head_size = found.head_size,
                         .vocabulary = found.tokens.columns,
                         .cache_form = found.cache_form,
                         .token_scale = found.token_scale,
                         .final_norm = packed(found.final_norm),
                         .language_head = packer.projection(found.language_head),
                         .logit_divisor = found.logit_divisor,
                         .logit_soft_cap = found.logit_soft_cap};
  if (have_same_weights(found.tokens, found.language_head)) {
    weights.tokens = weights.language_head;
  } else {
    weights.tokens = packer.tokens(found.tokens);
  }
  if (found.positions != nullptr) {
    weights.positions = SharedArray<float>(copied(found.positions));
    weights.max_positions = static_cast<std::size_t>(found.positions->shape[0]);
  }
  std::vector<RecognizedRotary> rotary_tables;
  for (const RecognizedLayer& from : found.layers) {
    DecoderLayer to;
    to.attention_input_norm = packed(from.attention_input_norm);
    to.attention_branch_norm = packed(from.attention_branch_norm);
    to.query_norm = packed(from.query_norm);
    to.key_norm = packed(from.key_norm);
    pack_query_key_value(found, from, packer, to);
    if (from.rotary) to.rotary_table = rotary_table_of(*from.rotary, rotary_tables, weights);
    to.rules = from.rules;
    to.attention_output = packer.projection(from.attention_output);
    to.attention_branch_factor = from.attention_branch_factor;
    to.feed_forward_branch_factor = from.feed_forward_branch_factor;
    to.feed_forward_input_norm = packed(from.feed_forward_input_norm);
    to.feed_forward_branch_norm = packed(from.feed_forward_branch_norm);
    if (from.gate) to.gate = packer.projection(*from.gate);
    to.up = packer.projection(from.up);
    to.down = packer.projection(from.down);
    to.activation = from.activation;
    weights.layers.push_back(std::move(to));
  }
  return weights;
}

}  // namespace gpux_cpu::decoder
