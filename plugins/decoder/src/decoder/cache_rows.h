#pragma once

#include <cstddef>
#include <cstdint>

namespace gpux_cpu::decoder {

/// How keys and values are laid out in memory. int8: rows of codes and scales, as block_kernels/coded_rows.h has them.
enum class CacheForm : std::uint8_t { float32, float16, int8 };

/// Elements that have a scale in rows of int8: 32 or 16. 0: heads of that size have no whole blocks.
constexpr std::size_t cache_block_size(std::size_t head_size) noexcept {
  if (head_size == 0) return 0;
  if (head_size % 32 == 0) return 32;
  return head_size % 16 == 0 ? 16 : 0;
}

/// Elements of the tensor that a position has in a head: as many as the head, or codes and the two bytes of each scale.
constexpr std::size_t cache_row_size(CacheForm form, std::size_t head_size) noexcept {
  if (form != CacheForm::int8 || cache_block_size(head_size) == 0) return head_size;
  return head_size + 2 * (head_size / cache_block_size(head_size));
}

constexpr std::size_t cache_row_bytes(CacheForm form, std::size_t head_size) noexcept {
  const std::size_t element_bytes = form == CacheForm::float32 ? 4 : form == CacheForm::float16 ? 2 : 1;
  return cache_row_size(form, head_size) * element_bytes;
}

}  // namespace gpux_cpu::decoder
