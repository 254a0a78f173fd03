#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// Keys and values of a head as int8: for each position a row of head_size codes, then for each block of them an
/// exponent e, then for each a fraction f. An element is code * 2^e * (1 + f / 128): the scale of a block has the eight
/// significant bits of bfloat16. Its largest element has the code 127 or -127, so that rows that are read and made
/// again stay as they are.
namespace gpux::onnx {

inline constexpr std::string_view int8_rows_domain = "gpux.int8_rows";
/// Functions of a model: int8[batch, heads, tokens, row size] to float32[batch, heads, tokens, head size], and back.
inline constexpr std::string_view from_int8_rows = "FromInt8Rows", to_int8_rows = "ToInt8Rows";

/// Elements that have a scale: 32 or 16. 0: heads of that size have no whole blocks.
constexpr std::int64_t int8_block_size(std::int64_t head_size) noexcept {
  if (head_size > 0 && head_size % 32 == 0) return 32;
  return head_size > 0 && head_size % 16 == 0 ? 16 : 0;
}

/// Bytes of a row.
constexpr std::int64_t int8_row_size(std::int64_t head_size) noexcept {
  const std::int64_t block_size = int8_block_size(head_size);
  return block_size == 0 ? 0 : head_size + 2 * (head_size / block_size);
}

/// Appends the functions for heads of that size to a ModelProto without its graph. False: it is of an operator set
/// before 13 or a version of the format before 8, or has operators of that domain.
bool append_int8_functions(std::string& head, std::int64_t head_size);

}  // namespace gpux::onnx
