#include "block_kernels/block_kernels.h"

#include <array>

#include "kernels/kernel_choice.h"

namespace gpux_cpu::decoder {

#if defined(__x86_64__)
extern const BlockKernels avx512vnni_block_kernels, avxvnni_block_kernels, avx2_block_kernels;
#endif
extern const BlockKernels reference_block_kernels;

namespace {

constexpr std::array all {
#if defined(__x86_64__)
  &avx512vnni_block_kernels, &avxvnni_block_kernels, &avx2_block_kernels,
#endif
      &reference_block_kernels
};

}  // namespace

const BlockKernels& block_kernels() {
  static const BlockKernels& best = choose_kernels("GPUX_DECODER_ISA", all);
  return best;
}

const BlockKernels* const* all_block_kernels(std::size_t& count) noexcept {
  count = all.size();
  return all.data();
}

}  // namespace gpux_cpu::decoder
