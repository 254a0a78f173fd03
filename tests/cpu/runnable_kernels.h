#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

#include "kernels/kernels.h"

namespace gpux_cpu {

#if defined(__x86_64__)
/// AVX-VNNI's table in the coding of AVX-512; its own can_run() asks for AVX-VNNI.
extern const Kernels avxvnni_as_avx512_kernels;
#endif

/// The plain loops that the others are held against.
inline const Kernels& reference() {
  std::size_t count = 0;
  const Kernels* const* all = all_kernels(count);
  return *all[count - 1];
}

/// What this processor runs, the best first.
inline std::vector<const Kernels*> runnable() {
  std::size_t count = 0;
  const Kernels* const* all = all_kernels(count);
  std::vector<const Kernels*> found;
  std::copy_if(all, all + count, std::back_inserter(found), [](const Kernels* kernels) { return kernels->can_run(); });
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl")) {
    found.push_back(&avxvnni_as_avx512_kernels);
  }
#endif
  return found;
}

}  // namespace gpux_cpu
