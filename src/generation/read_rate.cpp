#include "generation/read_rate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <new>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/start_thread.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t lanes = 32;

std::uint64_t sum_of(const std::uint64_t* values, std::size_t count) {
  std::uint64_t sums[lanes] = {};
  for (std::size_t i = 0; i + lanes <= count; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += values[i + lane];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all += sum;
  return all;
}

}  // namespace

double read_rate(unsigned threads, std::uint64_t bytes) {
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;
  constexpr int min_rounds = 6;
  constexpr std::chrono::milliseconds min_time{300};
  const std::size_t parts = std::size_t{4} * std::max(threads, 1U);
  const std::size_t each =
      std::max(static_cast<std::size_t>(std::min(bytes, most_bytes)) / sizeof(std::uint64_t) / parts, lanes);
  std::vector<std::uint64_t> memory;
  try {
    memory.assign(each * parts, 1);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::resource_exhausted, "no memory to measure how fast memory is read");
  }
  std::atomic<std::uint64_t> sink = 0;
  double best = 0;
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round < min_rounds || Clock::now() - begin < min_time; ++round) {
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t part = next++; part < parts; part = next++) sink += sum_of(memory.data() + part * each, each);
    };
    const Clock::time_point start = Clock::now();
    std::vector<std::jthread> others = start_more_threads(std::max(threads, 1U) - 1, work);
    work();
    others.clear();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, static_cast<double>(memory.size() * sizeof(std::uint64_t)) / std::max(seconds, 1e-9));
  }
  return best;
}

std::string limit_line(double read_share, double product_share, std::size_t users) {
  constexpr double limiting_share = 0.6;
  const std::string read =
      fmt::format("a step reads weights, keys and values at {:.0f} % of what memory gives", 100 * read_share);
  const std::string needs = fmt::format("{} and needs {:.0f} % of the processor's products", read, 100 * product_share);
  const std::string& told = product_share > 0 ? needs : read;
  if (std::max(read_share, product_share) >= limiting_share) {
    return told + (read_share >= product_share ? ": memory limits; weights of fewer bits or faster memory help"
                                               : ": products limit; more or faster processors help");
  }
  if (product_share > 0) return told + ": neither limits alone; attention, and threads that wait, take the rest";
  if (users > 1) return told + ": the products of all texts limit; more or faster processors help";
  return told + ": computing limits, not memory; more threads or another provider may help";
}

}  // namespace gpux::generation
