#include "kernels/kernels.h"

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace gpux_encoder {

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

const Kernels& chosen() {
  const char* given = std::getenv("GPUX_ENCODER_ISA");
  const std::string_view name = given == nullptr ? "" : given;
  std::string accepted;
  for (const Kernels* kernels : all) {
    if (!kernels->can_run()) continue;
    if (name.empty() || name == kernels->name) return *kernels;
    accepted.append(accepted.empty() ? "" : ", ").append(kernels->name);
  }
  throw std::invalid_argument("GPUX_ENCODER_ISA is '" + std::string(name) + "'; this processor runs " + accepted);
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& best = chosen();
  return best;
}

const Kernels* const* all_kernels(std::size_t& count) noexcept {
  count = all.size();
  return all.data();
}

}  // namespace gpux_encoder
