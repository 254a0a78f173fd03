#include "kernels/kernels.h"

#include <array>

#include "kernels/kernel_choice.h"

namespace gpux_cpu {

#if defined(__x86_64__)
extern const Kernels avx512_kernels, avx512vnni_kernels, avx512bw_kernels, avxvnni_kernels, avx2_kernels;
#endif
extern const Kernels reference_kernels;

namespace {

constexpr std::array all {
#if defined(__x86_64__)
  &avx512_kernels, &avx512vnni_kernels, &avx512bw_kernels, &avxvnni_kernels, &avx2_kernels,
#endif
      &reference_kernels
};

}  // namespace

const Kernels& kernels() {
  static const Kernels& best = choose_kernels("GPUX_ENCODER_ISA", all);
  return best;
}

const Kernels* const* all_kernels(std::size_t& count) noexcept {
  count = all.size();
  return all.data();
}

}  // namespace gpux_cpu
