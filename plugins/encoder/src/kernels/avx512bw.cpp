// AVX-512 with neither VNNI nor BF16.
#include "kernels/products.h"

namespace gpux_encoder {
namespace {

bool can_run() noexcept {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

extern const Kernels avx512bw_kernels;
const Kernels avx512bw_kernels =
    kernels_of<FloatKind<Vectors512, 14>, WidenedBfloat16Kind<Vectors512, 12>, WidenedByteKind<Vectors512, 12>>(
        "avx512bw", can_run);

}  // namespace gpux_encoder
