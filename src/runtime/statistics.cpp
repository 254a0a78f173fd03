#include "runtime/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gpux::runtime {

void summarize(std::vector<double> times_ms, BenchmarkResult& result) {
  std::sort(times_ms.begin(), times_ms.end());
  const auto count = static_cast<double>(times_ms.size());
  const double total = std::accumulate(times_ms.begin(), times_ms.end(), 0.0);
  const auto percentile = [&](double share) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * count));
    return times_ms[std::clamp<std::size_t>(rank, 1, times_ms.size()) - 1];
  };
  double squares = 0;
  result.mean_ms = total / count;
  for (const double time : times_ms) squares += (time - result.mean_ms) * (time - result.mean_ms);
  result.std_ms = std::sqrt(squares / count);
  result.min_ms = times_ms.front();
  result.max_ms = times_ms.back();
  const std::size_t middle = times_ms.size() / 2;
  result.median_ms = times_ms.size() % 2 == 1 ? times_ms[middle] : (times_ms[middle - 1] + times_ms[middle]) / 2;
  result.p90_ms = percentile(0.90);
  result.p95_ms = percentile(0.95);
  result.p99_ms = percentile(0.99);
  result.throughput_per_second = total > 0 ? 1000 * count / total : 0;
  result.runs = times_ms.size();
}

}  // namespace gpux::runtime
