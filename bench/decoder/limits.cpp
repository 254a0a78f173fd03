#include "limits.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <time.h>

#include "block_kernels/block_kernels.h"
#include "kernels/large_pages.h"

namespace gpux_cpu::decoder {
namespace {

// Several streams are not faster: the processor fetches ahead.
std::uint64_t sum_of(const std::uint64_t* values, std::size_t count) {
  std::uint64_t sums[32] = {};
  for (std::size_t i = 0; i + 32 <= count; i += 32) {
    for (std::size_t lane = 0; lane < 32; ++lane) sums[lane] += values[i + lane];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all += sum;
  return all;
}

}  // namespace

double seconds_now(std::size_t threads) {
  timespec time{};
  ::clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double memory_bandwidth(std::size_t threads, std::size_t bytes) {
  const auto memory = allocate_in_large_pages(bytes);
  std::memset(memory.get(), 1, bytes);
  const auto* const values = reinterpret_cast<const std::uint64_t*>(memory.get());
  const std::size_t each = bytes / threads / sizeof(std::uint64_t);
  std::atomic<std::uint64_t> sink = 0;
  constexpr std::size_t passes = 4;
  const auto read = [&](std::size_t thread, std::size_t count) {
    for (std::size_t pass = 0; pass < count; ++pass) sink += sum_of(values + thread * each, each);
  };
  read(0, 1);
  const double start = seconds_now(threads);
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back([&, i] { read(i, passes); });
  read(0, passes);
  for (std::thread& other : others) other.join();
  const double seconds = seconds_now(threads) - start;
  return static_cast<double>(passes * threads * each * sizeof(std::uint64_t)) / seconds;
}

double byte_products_a_second() {
  constexpr std::size_t rows = 48, inner = 512, repeats = 200;
  std::vector<std::int8_t> bytes(rows * inner, 1);
  std::vector<float> scale(rows, 1), weight_scale(panel_columns, 1), out(rows * panel_columns);
  std::vector<std::int32_t> sum(rows, -std::int32_t{inner});
  std::vector<std::uint8_t> weights(inner * panel_columns, 1);
  const BlockProduct product{.rows = {bytes.data(), scale.data(), sum.data(), rows, 1, inner},
                             .form = WeightForm::bytes,
                             .weights = weights.data(),
                             .weight_scale = {.floats = weight_scale.data()},
                             .zero_point = 128,
                             .out = out.data(),
                             .out_stride = panel_columns,
                             .first_panel = 0,
                             .last_panel = 1};
  double best = 0;
  for (int round = 0; round < 20; ++round) {
    const double start = seconds_now(1);
    for (std::size_t i = 0; i < repeats; ++i) block_kernels().block_product(product);
    best = std::max(best, static_cast<double>(repeats * rows * inner * panel_columns) / (seconds_now(1) - start));
  }
  return best;
}

}  // namespace gpux_cpu::decoder
