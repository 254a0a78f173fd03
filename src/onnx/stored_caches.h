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

/// Inputs and outputs, keys and values, that are stored in another type than the float32 of the model's file.
struct StoredCaches {
  std::set<std::string> values;
  ElementType element = ElementType::float16;  ///< or int8: rows as onnx/int8_rows.h has them

  [[nodiscard]] bool empty() const noexcept { return values.empty(); }

  bool operator==(const StoredCaches&) const = default;
};

/// A decoder with keys and values of another type.
struct ChangedCaches {
  std::string content;
  StoredCaches stored;
  std::set<CachedAttentionForm> forms;  ///< the different forms of its attention nodes

  bool operator==(const ChangedCaches&) const = default;
};

enum class CacheUse : std::uint8_t {
  float16_computed,  ///< all that attention reads and gives is cast: it computes in float16
  float16_stored,    ///< the inputs and outputs of the model alone are cast: attention computes in float32
  int8_stored,       ///< the same with int8 rows, which functions of the model read and make
};

/// The model with that in place of float32 for the keys and values of each GroupQueryAttention. None: there is no such
/// operator, or one whose keys and values are not inputs and outputs of the model that only it has, of float32; or that
/// has more inputs than the cosines and sines; or the file is larger than 1.5 GB; or, for int8, heads are of no whole
/// blocks, of several sizes, or the model is older than functions. Error MalformedMessage. Pure.
std::optional<ChangedCaches> with_stored_caches(std::string_view content, CacheUse use);

/// The entries that are stored in another type have it.
void set_types(std::span<SignatureEntry> entries, const StoredCaches& stored);

/// A small decoder in float32 with one attention of each form, in order, to find out what a provider makes of them.
/// Inputs of the attention N: query.N, and key.N and value.N unless it is packed, float32[1, sequence, hidden size];
/// past_key_values.N.key and .value; of all: last_positions, int32[1], and total_length, int32. Outputs: first
/// attended.N of all, then present.N.key and .value of each. Runs have up to `cached_attention_example_length` tokens
/// in all. Pure.
std::string cached_attention_example(const std::set<CachedAttentionForm>& forms);

inline constexpr std::int64_t cached_attention_example_length = 128;

}  // namespace gpux::onnx
