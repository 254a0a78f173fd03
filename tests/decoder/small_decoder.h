#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "decoder/decoder.h"

namespace gpux_cpu::decoder {

/// Sizes and features of a decoder of random weights.
struct SmallDecoder {
  std::string name;
  std::size_t heads = 4, kv_heads = 2, head_size = 16, hidden_size = 64, intermediate_size = 96, layers = 2;
  std::size_t vocabulary = 75;
  /// fp32, bf16, stored-bf16 and stored-fp16 (computed in fp32), or int4-BLOCK and int8-BLOCK; with zero points:
  /// int4-BLOCK-z, with minimums: int4-BLOCK-m.
  std::string weights = "fp32";
  std::string value_and_gate_weights = {};  ///< empty: as `weights`
  CacheForm cache_form = CacheForm::float32;
  std::size_t rotary_dimensions = 16;  ///< 0: none
  bool interleaved = false, normalizes_heads = false, has_branch_norms = false;
  bool is_gated = true, has_biases = false, ties_tokens = false, splits_query_key_value = false;
  std::size_t window = 0;  ///< of the first layer
  float soft_cap = 0, logit_soft_cap = 0, token_scale = 1, branch_factor = 1, logit_divisor = 1;
  Activation activation = Activation::silu;
  bool normalizes_all_heads = false, has_position_table = false;
  std::size_t max_positions = 4096;
};

DecoderWeights random_weights(const SmallDecoder& sizes, unsigned seed = 1);

/// The decoders that the tests run, each with other features.
std::vector<SmallDecoder> small_decoders();

/// A row of a batch: its tokens and what they have left in the cache.
class CachedRow {
 public:
  CachedRow(const Decoder& decoder, std::size_t capacity);

  std::size_t tokens = 0;
  std::vector<std::vector<std::byte>> values;  ///< keys and values of each layer, [kv_heads, capacity, head_size]
};

/// How runs are made.
struct RunSettings {
  std::size_t threads = 1;
  bool shares_memory = true;  ///< present is past
};

/// Appends `ids` to each row, as many to each, in one run. The logits of each row.
std::vector<std::vector<float>> append(const Decoder& decoder, const std::vector<CachedRow*>& rows,
                                       const std::vector<std::vector<std::int64_t>>& ids, std::size_t capacity,
                                       const RunSettings& settings = {});

/// The logits of the last token of a row, computed in double from all its tokens.
std::vector<double> plain_logits(const DecoderWeights& weights, const std::vector<std::int64_t>& ids);

void on_threads(std::size_t parts, const std::function<void(std::size_t)>& work);

}  // namespace gpux_cpu::decoder
