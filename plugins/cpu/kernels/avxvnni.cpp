// AVX2 with VNNI. 6 rows of a tile are 12 sums of the 16 registers.
#include "kernels/products.h"

namespace gpux_cpu {
namespace {

bool can_run() noexcept {
  return Vectors256::can_run() && __builtin_cpu_supports("avxvnni");
}

}  // namespace

extern const Kernels avxvnni_kernels;
const Kernels avxvnni_kernels =
    kernels_of<FloatKind<Vectors256, 6>, WidenedBfloat16Kind<Vectors256, 5>, DotKind<Vectors256, BytesOfLanes, 6>>(
        "avxvnni", can_run);

}  // namespace gpux_cpu
