// AVX-512 with VNNI. 6 rows of a tile of blocks are 24 sums, beside 4 vectors of weights and one of a row; 14 rows of
// floats are 28 sums.
#include "block_kernels/block_products.h"
#include "block_kernels/coded_rows.h"
#include "block_kernels/float_products.h"
#include "block_kernels/packed_keys_512.h"
#include "block_kernels/vector_rows.h"

namespace gpux_cpu::decoder {
namespace {

bool can_run() noexcept {
  return Vectors512::can_run() && __builtin_cpu_supports("avx512vnni");
}

}  // namespace

extern const BlockKernels avx512vnni_block_kernels;
const BlockKernels avx512vnni_block_kernels{
    .name = "avx512vnni",
    .can_run = can_run,
    .block_products = block_products_of<Vectors512, DotInstruction, DotInstruction, 6, 5>(),
    .quantize = quantize_row_of<Vectors512>,
    .float_product = float_product_of<Vectors512, 14>,
    .pack_keys = pack_keys_512,
    .pack_half_keys = pack_half_keys_512,
    .softmax = softmax_of<Vectors512>,
    .to_half = to_half_512,
    .from_half = from_half_512,
    .to_codes = to_codes,
    .from_codes = from_codes,
};

}  // namespace gpux_cpu::decoder
