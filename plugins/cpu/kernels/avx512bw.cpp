// AVX-512 with neither VNNI nor BF16.
#include "kernels/products.h"

namespace gpux_cpu {

extern const Kernels avx512bw_kernels;
const Kernels avx512bw_kernels =
    kernels_of<FloatKind<Vectors512, 14>, WidenedBfloat16Kind<Vectors512, 12>, WidenedByteKind<Vectors512, 12>>(
        "avx512bw", Vectors512::can_run);

}  // namespace gpux_cpu
