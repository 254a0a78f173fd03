// Keys into panels, 16 keys and 16 elements at a time, in vectors of 512 bits.
#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "block_kernels/block_kernels.h"

namespace gpux_cpu::decoder {
namespace {

// Columns of 16 rows of 16.
inline void transpose_16(__m512 (&rows)[16]) noexcept {
  __m512 pairs[16], quads[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const __m512d a = _mm512_castps_pd(pairs[i]), b = _mm512_castps_pd(pairs[i + 1]);
    const __m512d c = _mm512_castps_pd(pairs[i + 2]), d = _mm512_castps_pd(pairs[i + 3]);
    quads[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    quads[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    quads[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    quads[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }
  // quads[4 * j + i] has column i + 4 * lane of rows 4 * j to 4 * j + 3 in each lane of 128 bits.
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512 a = _mm512_shuffle_f32x4(quads[i], quads[i + 4], 0x88);
    const __m512 b = _mm512_shuffle_f32x4(quads[i], quads[i + 4], 0xDD);
    const __m512 c = _mm512_shuffle_f32x4(quads[i + 8], quads[i + 12], 0x88);
    const __m512 d = _mm512_shuffle_f32x4(quads[i + 8], quads[i + 12], 0xDD);
    rows[i] = _mm512_shuffle_f32x4(a, c, 0x88);
    rows[i + 8] = _mm512_shuffle_f32x4(a, c, 0xDD);
    rows[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
    rows[i + 12] = _mm512_shuffle_f32x4(b, d, 0xDD);
  }
}

void pack_keys_512(const float* keys, std::size_t count, std::size_t head_size, float* packed) noexcept {
  for (std::size_t first = 0; first < panels_of(count) * panel_columns; first += 16) {
    float* const to = packed + first / panel_columns * panel_columns * head_size + first % panel_columns;
    const std::size_t own = count <= first ? 0 : count - first < 16 ? count - first : 16;
    for (std::size_t element = 0; element < head_size; element += 16) {
      const std::size_t width = head_size - element < 16 ? head_size - element : 16;
      const auto mask = static_cast<__mmask16>((1U << width) - 1);
      __m512 rows[16];
#pragma GCC unroll 16
      for (std::size_t i = 0; i < 16; ++i) {
        rows[i] = i < own ? _mm512_maskz_loadu_ps(mask, keys + (first + i) * head_size + element) : _mm512_setzero_ps();
      }
      transpose_16(rows);
#pragma GCC unroll 16
      for (std::size_t i = 0; i < 16; ++i) {
        if (i < width) _mm512_storeu_ps(to + (element + i) * panel_columns, rows[i]);
      }
    }
  }
}

// Pairs of elements are moved as one, then the words of a pair to their rows.
void pack_half_keys_512(const std::uint16_t* keys, std::size_t count, std::size_t head_size,
                        std::uint16_t* packed) noexcept {
  alignas(64) static constexpr std::uint16_t even_words_first[32] = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20,
                                                                     22, 24, 26, 28, 30, 1,  3,  5,  7,  9,  11,
                                                                     13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
  const __m512i order = _mm512_load_si512(even_words_first);
  for (std::size_t first = 0; first < panels_of(count) * panel_columns; first += 16) {
    std::uint16_t* const to = packed + first / panel_columns * panel_columns * head_size + first % panel_columns;
    const std::size_t own = count <= first ? 0 : count - first < 16 ? count - first : 16;
    for (std::size_t element = 0; element < head_size; element += 32) {
      const std::size_t width = head_size - element < 32 ? head_size - element : 32;
      const auto mask = static_cast<__mmask32>((std::uint64_t{1} << width) - 1);
      __m512 pairs[16];
#pragma GCC unroll 16
      for (std::size_t i = 0; i < 16; ++i) {
        pairs[i] = i < own
                       ? _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, keys + (first + i) * head_size + element))
                       : _mm512_setzero_ps();
      }
      transpose_16(pairs);
#pragma GCC unroll 16
      for (std::size_t i = 0; i < 16; ++i) {
        const __m512i both = _mm512_permutexvar_epi16(order, _mm512_castps_si512(pairs[i]));
        std::uint16_t* const even = to + (element + 2 * i) * panel_columns;
        if (2 * i < width) _mm256_storeu_si256(reinterpret_cast<__m256i*>(even), _mm512_castsi512_si256(both));
        if (2 * i + 1 < width) {
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(even + panel_columns), _mm512_extracti64x4_epi64(both, 1));
        }
      }
    }
  }
}

void to_half_512(const float* values, std::size_t count, std::uint16_t* out) noexcept {
  for (std::size_t i = 0; i < count; i += 16) {
    const std::size_t width = count - i < 16 ? count - i : 16;
    const auto mask = static_cast<__mmask16>((1U << width) - 1);
    _mm256_mask_storeu_epi16(out + i, mask,
                             _mm512_cvtps_ph(_mm512_maskz_loadu_ps(mask, values + i), _MM_FROUND_TO_NEAREST_INT));
  }
}

void from_half_512(const std::uint16_t* values, std::size_t count, float* out) noexcept {
  for (std::size_t i = 0; i < count; i += 16) {
    const std::size_t width = count - i < 16 ? count - i : 16;
    const auto mask = static_cast<__mmask16>((1U << width) - 1);
    _mm512_mask_storeu_ps(out + i, mask, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, values + i)));
  }
}

}  // namespace
}  // namespace gpux_cpu::decoder
