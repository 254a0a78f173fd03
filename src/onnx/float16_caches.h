#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/model_info.h"

namespace gpux::onnx {

/// Everything that determines how a GroupQueryAttention (domain com.microsoft) computes, but for the sizes of a run.
struct CachedAttentionForm {
  std::int64_t heads = 1, kv_heads = 1, head_size = 1;
  std::int64_t rotary_size = 0;         ///< elements in a row of its cosines; 0: it does not rotate
  bool is_packed = false;               ///< its query has the keys and values of the run, too
  std::vector<std::string> attributes;  ///< attributes of its node, as AttributeProtos

  auto operator<=>(const CachedAttentionForm&) const = default;
};

/// A decoder that has its keys and values in float16.
struct Float16Caches {
  std::string content;
  std::set<std::string> values;         ///< the inputs and outputs that are float16 now
  std::set<CachedAttentionForm> forms;  ///< the different forms of its attention nodes

  bool operator==(const Float16Caches&) const = default;
};

/// What is float16 of an attention whose keys and values are.
enum class Float16Use : std::uint8_t {
  computed,  ///< all that it reads and gives, which is cast: it computes in float16
  stored,    ///< the inputs and outputs of the model alone, which are cast: it computes in float32
};

/// The model with float16 in place of float32 for the keys and values of each GroupQueryAttention. None: there is no
/// such operator, or one whose keys and values are not inputs and outputs of the model that only it has, of float32; or
/// that has more inputs than the cosines and sines; or the file is larger than 1.5 GB. Error MalformedMessage. Pure.
std::optional<Float16Caches> with_float16_caches(std::string_view content, Float16Use use = Float16Use::computed);

/// The entries of these names are of float16 in place of float32.
void set_float16(std::span<SignatureEntry> entries, const std::set<std::string>& names);

/// A small decoder in float32 with one attention of each form, in order, to find out what a provider makes of them.
/// Inputs of the attention N: query.N, and key.N and value.N unless it is packed, float32[1, sequence, hidden size];
/// past_key_values.N.key and .value; of all: last_positions, int32[1], and total_length, int32. Outputs: first
/// attended.N of all, then present.N.key and .value of each. Runs have up to `cached_attention_example_length` tokens
/// in all. Pure.
std::string cached_attention_example(const std::set<CachedAttentionForm>& forms);

inline constexpr std::int64_t cached_attention_example_length = 128;

}  // namespace gpux::onnx
