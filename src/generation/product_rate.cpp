#include "generation/product_rate.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "base/start_thread.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gpux::generation {

#if defined(__x86_64__)
namespace {

using Clock = std::chrono::steady_clock;

// As many as hide the latency of an instruction.
constexpr std::size_t sums = 12;
constexpr std::size_t repeats = 1'000'000;

/// Products of `repeats` rounds. The assembly keeps the compiler from leaving them out.
struct Kernel {
  bool (*can_run)();
  void (*run)();
  std::size_t products_of_round;
};

[[gnu::target("avx512f,avx512vnni")]] void run_avx512vnni() {
  __m512i all[sums] = {};
  const __m512i ones = _mm512_set1_epi8(1);
  for (std::size_t i = 0; i < repeats; ++i) {
#pragma GCC unroll 12
    for (__m512i& sum : all) asm volatile("vpdpbusd %1, %1, %0" : "+v"(sum) : "v"(ones));
  }
}

[[gnu::target("avx2")]] void run_avxvnni() {
  __m256i all[sums] = {};
  const __m256i ones = _mm256_set1_epi8(1);
  for (std::size_t i = 0; i < repeats; ++i) {
#pragma GCC unroll 12
    for (__m256i& sum : all) asm volatile("%{vex%} vpdpbusd %1, %1, %0" : "+x"(sum) : "x"(ones));
  }
}

[[gnu::target("avx2")]] void run_avx2() {
  __m256i all[sums] = {};
  const __m256i bytes = _mm256_set1_epi8(1), words = _mm256_set1_epi16(1);
  for (std::size_t i = 0; i < repeats; ++i) {
#pragma GCC unroll 12
    for (__m256i& sum : all) {
      __m256i products;
      asm volatile("vpmaddubsw %2, %2, %1\n\tvpmaddwd %3, %1, %1\n\tvpaddd %1, %0, %0"
                   : "+x"(sum), "=&x"(products)
                   : "x"(bytes), "x"(words));
    }
  }
}

constexpr Kernel kernels[] = {
    {[] { return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vnni") != 0; }, run_avx512vnni,
     sums * 64},
    {[] { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("avxvnni") != 0; }, run_avxvnni,
     sums * 32},
    {[] { return __builtin_cpu_supports("avx2") != 0; }, run_avx2, sums * 32},
};

}  // namespace

double byte_product_rate(unsigned threads) {
  const auto* const kernel = std::ranges::find_if(kernels, [](const Kernel& one) { return one.can_run(); });
  if (kernel == std::end(kernels)) return 0;
  constexpr std::chrono::milliseconds time{100};
  const unsigned count = std::max(threads, 1U);
  double best = 0;
  for (const Clock::time_point begin = Clock::now(); Clock::now() - begin < time;) {
    const Clock::time_point start = Clock::now();
    std::vector<std::jthread> others = start_more_threads(count - 1, [&] { kernel->run(); });
    const auto workers = static_cast<double>(others.size() + 1);
    kernel->run();
    others.clear();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const double products = workers * static_cast<double>(repeats) * static_cast<double>(kernel->products_of_round);
    best = std::max(best, products / std::max(seconds, 1e-9));
  }
  return best;
}

#else

double byte_product_rate(unsigned /*threads*/) {
  return 0;
}

#endif

}  // namespace gpux::generation
