#pragma once

#include <vector>

#include "gpux/benchmark.h"

namespace gpux::runtime {

/// Fills the times and the throughput from single runs in milliseconds, at least one. Percentiles are the nearest rank.
void summarize(std::vector<double> times_ms, BenchmarkResult& result);

}  // namespace gpux::runtime
