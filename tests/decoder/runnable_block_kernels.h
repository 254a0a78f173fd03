#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

#include "block_kernels/block_kernels.h"

namespace gpux_cpu::decoder {

#if defined(__x86_64__)
/// AVX-VNNI's table in the coding of AVX-512; its own can_run() asks for AVX-VNNI.
extern const BlockKernels avxvnni_as_avx512_block_kernels;
#endif

/// The plain loops that the others are held against.
inline const BlockKernels& plain_block_kernels() {
  std::size_t count = 0;
  const BlockKernels* const* all = all_block_kernels(count);
  return *all[count - 1];
}

/// What this processor runs, the best first.
inline std::vector<const BlockKernels*> runnable_block_kernels() {
  std::size_t count = 0;
  const BlockKernels* const* all = all_block_kernels(count);
  std::vector<const BlockKernels*> found;
  std::copy_if(all, all + count, std::back_inserter(found),
               [](const BlockKernels* kernels) { return kernels->can_run(); });
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl")) {
    found.push_back(&avxvnni_as_avx512_block_kernels);
  }
#endif
  return found;
}

}  // namespace gpux_cpu::decoder
