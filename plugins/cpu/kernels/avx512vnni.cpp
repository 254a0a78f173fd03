// AVX-512 with VNNI, without BF16.
#include "kernels/products.h"

namespace gpux_cpu {
namespace {

bool can_run() noexcept {
  return Vectors512::can_run() && __builtin_cpu_supports("avx512vnni");
}

}  // namespace

extern const Kernels avx512vnni_kernels;
const Kernels avx512vnni_kernels =
    kernels_of<FloatKind<Vectors512, 14>, WidenedBfloat16Kind<Vectors512, 12>, DotKind<Vectors512, BytesOfLanes, 14>>(
        "avx512vnni", can_run);

}  // namespace gpux_cpu
