// AVX2 with FMA. 6 rows of a tile are 12 sums of the 16 registers.
#include "kernels/products.h"

namespace gpux_cpu {

extern const Kernels avx2_kernels;
const Kernels avx2_kernels =
    kernels_of<FloatKind<Vectors256, 6>, WidenedBfloat16Kind<Vectors256, 5>, WidenedByteKind<Vectors256, 5>>(
        "avx2", Vectors256::can_run);

}  // namespace gpux_cpu
