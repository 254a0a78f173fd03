#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpux/runtime.h"
#include "runtime/scheduling/padding.h"

namespace gpux::server {

/// Sizes of free dimensions, by name or as "input.index".
using DimensionSizes = std::vector<std::pair<std::string, std::int64_t>>;

struct ServingOptions {
  std::int64_t max_batch_size = 32;  ///< rows; 1: no batching
  RunSharing sharing;                ///< whether requests may share runs, and why; with max_batch_size 1 they do not
  std::int64_t max_batch_cost = 0;   ///< elements of a run's largest input, padding counted; 0: no bound
  bool fills_rows = false;           ///< runtime::BatchLimits::fills_rows
  /// How requests whose sizes differ share a run; null: they do not. Made by runtime::read_padding().
  std::shared_ptr<const runtime::Padding> padding;
  std::chrono::microseconds max_queue_delay{0};  ///< how long the oldest request of a batch waits for others to join it
  std::size_t max_queue = 1024;                  ///< requests that may wait
  std::optional<std::chrono::milliseconds> timeout;
  /// How many threads may run quick requests themselves instead of waking the model's, where all of it runs on the
  /// processor: a device that hangs would take them along.
  std::size_t quick_lanes = 0;
  std::vector<DimensionSizes> warm_up;  ///< one run of each before the first request; none given: one of sizes 1
};

}  // namespace gpux::server
