// AVX2 with VNNI. 6 rows of a tile are 12 sums of the 16 registers.
#include "kernels/products.h"

namespace gpux_encoder {
namespace {

bool can_run() noexcept {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("avxvnni");
}

}  // namespace

extern const Kernels avxvnni_kernels;
const Kernels avxvnni_kernels =
    kernels_of<FloatKind<Vectors256, 6>, WidenedBfloat16Kind<Vectors256, 5>, DotKind<Vectors256, BytesOfLanes, 6>>(
        "avxvnni", can_run);

}  // namespace gpux_encoder
