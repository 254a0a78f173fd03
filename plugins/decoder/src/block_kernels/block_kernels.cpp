#include "block_kernels/block_kernels.h"

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace gpux_decoder {

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

const BlockKernels& chosen() {
  const char* given = std::getenv("GPUX_DECODER_ISA");
  const std::string_view name = given == nullptr ? "" : given;
  std::string accepted;
  for (const BlockKernels* kernels : all) {
    if (!kernels->can_run()) continue;
    if (name.empty() || name == kernels->name) return *kernels;
    accepted.append(accepted.empty() ? "" : ", ").append(kernels->name);
  }
  throw std::invalid_argument("GPUX_DECODER_ISA is '" + std::string(name) + "'; this processor runs " + accepted);
}

}  // namespace

const BlockKernels& block_kernels() {
  static const BlockKernels& best = chosen();
  return best;
}

const BlockKernels* const* all_block_kernels(std::size_t& count) noexcept {
  count = all.size();
  return all.data();
}

}  // namespace gpux_decoder
