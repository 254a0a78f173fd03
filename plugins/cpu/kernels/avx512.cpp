// AVX-512 with VNNI and BF16. 14 rows of a tile are 28 sums, beside 2 vectors of weights and one of a row.
#include <immintrin.h>

#include "kernels/products.h"

namespace gpux_cpu {
namespace {

bool can_run() noexcept {
  return Vectors512::can_run() && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
}

void to_bfloat16(const float* values, std::size_t count, std::uint16_t* out) noexcept {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(_mm512_loadu_ps(values + i))));
  }
  to_bfloat16_row(values + i, count - i, out + i);
}

constexpr Kernels with_native_bfloat16() noexcept {
  Kernels kernels = kernels_of<FloatKind<Vectors512, 14>, DotKind<Vectors512, Bfloat16sOfLanes, 14>,
                               DotKind<Vectors512, BytesOfLanes, 14>>("avx512", can_run);
  kernels.to_bfloat16 = to_bfloat16;
  return kernels;
}

}  // namespace

extern const Kernels avx512_kernels;
const Kernels avx512_kernels = with_native_bfloat16();

}  // namespace gpux_cpu
