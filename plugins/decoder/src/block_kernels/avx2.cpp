// AVX2 with FMA and F16C. 4 rows of a tile of blocks are 8 sums of the 16 registers; 6 rows of floats are 12.
#include "block_kernels/block_products.h"
#include "block_kernels/coded_rows.h"
#include "block_kernels/float_products.h"
#include "block_kernels/packed_keys_256.h"
#include "block_kernels/vector_rows.h"

namespace gpux_cpu::decoder {
namespace {

bool can_run() noexcept {
  return Vectors256::can_run() && __builtin_cpu_supports("f16c");
}

}  // namespace

extern const BlockKernels avx2_block_kernels;
const BlockKernels avx2_block_kernels{
    .name = "avx2",
    .can_run = can_run,
    .block_products = block_products_of<Vectors256, SmallMadd, SignedMadd, 4, 2>(),
    .quantize = quantize_row_of<Vectors256>,
    .float_product = float_product_of<Vectors256, 6>,
    .pack_keys = pack_keys_256,
    .pack_half_keys = pack_half_keys_256,
    .softmax = softmax_of<Vectors256>,
    .to_half = to_half_256,
    .from_half = from_half_256,
    .to_codes = to_codes,
    .from_codes = from_codes,
};

}  // namespace gpux_cpu::decoder
