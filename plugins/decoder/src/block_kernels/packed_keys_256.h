// Keys into panels, 8 keys and 8 elements at a time, in vectors of 256 bits.
#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "block_kernels/block_kernels.h"

namespace gpux_cpu::decoder {
namespace {

// Columns of 8 rows of 8.
inline void transpose_8(__m256 (&rows)[8]) noexcept {
  __m256 pairs[8], quads[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xEE);
    quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
  }
}

void pack_keys_256(const float* keys, std::size_t count, std::size_t head_size, float* packed) noexcept {
  for (std::size_t first = 0; first < panels_of(count) * panel_columns; first += 8) {
    float* const to = packed + first / panel_columns * panel_columns * head_size + first % panel_columns;
    const std::size_t own = count <= first ? 0 : count - first < 8 ? count - first : 8;
    std::size_t element = 0;
    for (; element + 8 <= head_size; element += 8) {
      __m256 rows[8];
#pragma GCC unroll 8
      for (std::size_t i = 0; i < 8; ++i) {
        rows[i] = i < own ? _mm256_loadu_ps(keys + (first + i) * head_size + element) : _mm256_setzero_ps();
      }
      transpose_8(rows);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < 8; ++i) _mm256_storeu_ps(to + (element + i) * panel_columns, rows[i]);
    }
    for (; element < head_size; ++element) {
      for (std::size_t i = 0; i < 8; ++i) {
        to[element * panel_columns + i] = i < own ? keys[(first + i) * head_size + element] : 0;
      }
    }
  }
}

// Pairs of elements are moved as one, then the words of a pair to their rows.
void pack_half_keys_256(const std::uint16_t* keys, std::size_t count, std::size_t head_size,
                        std::uint16_t* packed) noexcept {
  const __m256i even_words_first =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  for (std::size_t first = 0; first < panels_of(count) * panel_columns; first += 8) {
    std::uint16_t* const to = packed + first / panel_columns * panel_columns * head_size + first % panel_columns;
    const std::size_t own = count <= first ? 0 : count - first < 8 ? count - first : 8;
    std::size_t element = 0;
    for (; element + 16 <= head_size; element += 16) {
      __m256 pairs[8];
#pragma GCC unroll 8
      for (std::size_t i = 0; i < 8; ++i) {
        const auto* const from = reinterpret_cast<const __m256i*>(keys + (first + i) * head_size + element);
        pairs[i] = i < own ? _mm256_castsi256_ps(_mm256_loadu_si256(from)) : _mm256_setzero_ps();
      }
      transpose_8(pairs);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < 8; ++i) {
        const __m256i words = _mm256_shuffle_epi8(_mm256_castps_si256(pairs[i]), even_words_first);
        const __m256i both = _mm256_permute4x64_epi64(words, 0xD8);
        std::uint16_t* const even = to + (element + 2 * i) * panel_columns;
        _mm_storeu_si128(reinterpret_cast<__m128i*>(even), _mm256_castsi256_si128(both));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(even + panel_columns), _mm256_extracti128_si256(both, 1));
      }
    }
    for (; element < head_size; ++element) {
      for (std::size_t i = 0; i < 8; ++i) {
        to[element * panel_columns + i] = i < own ? keys[(first + i) * head_size + element] : std::uint16_t{0};
      }
    }
  }
}

void to_half_256(const float* values, std::size_t count, std::uint16_t* out) noexcept {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
  for (; i < count; ++i) out[i] = static_cast<std::uint16_t>(_cvtss_sh(values[i], _MM_FROUND_TO_NEAREST_INT));
}

void from_half_256(const std::uint16_t* values, std::size_t count, float* out) noexcept {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values + i))));
  }
  for (; i < count; ++i) out[i] = _cvtsh_ss(values[i]);
}

}  // namespace
}  // namespace gpux_cpu::decoder
