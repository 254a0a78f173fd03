#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace gpux {

/// How long Runtime::benchmark() measures.
struct BenchmarkOptions {
  std::uint64_t runs = 100;  ///< measured runs; ignored where `seconds` is set
  std::uint64_t warmup_runs = 10;
  std::optional<double> seconds;              ///< measure for this time instead of `runs`
  std::function<void(double done)> progress;  ///< called at intervals with 0 to 1; may be empty
};

/// Times in milliseconds.
struct BenchmarkResult {
  double mean_ms = 0, std_ms = 0, min_ms = 0, max_ms = 0;
  double median_ms = 0, p90_ms = 0, p95_ms = 0, p99_ms = 0;
  double throughput_per_second = 0;  ///< runs, not items of a batch
  double first_run_ms = 0;
  double load_ms = 0;
  std::uint64_t runs = 0, warmup_runs = 0;
  std::uint64_t peak_memory_bytes = 0;  ///< peak resident memory of the process
};

}  // namespace gpux
