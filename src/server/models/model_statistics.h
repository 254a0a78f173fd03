#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "generation/engine.h"
#include "gpux/error.h"
#include "runtime/scheduling/scheduler.h"
#include "server/requests/histogram.h"
#include "server/requests/request_limits.h"

namespace gpux::server {

/// All runs that had the same number of rows.
struct BatchStatistics {
  std::uint64_t runs = 0;
  std::chrono::nanoseconds input{0}, compute{0}, output{0};
};

/// Sums the counters of all engines of one model, those from before a reload included. Thread-safe.
class EngineCounts {
 public:
  void add(const std::shared_ptr<const generation::Engine>& engine);
  /// Removes an engine that ends; its counts stay in the sum.
  void remove(const std::shared_ptr<const generation::Engine>& engine);
  /// Sums over all engines; values of the current state (running, waiting) over the present engines only.
  [[nodiscard]] generation::EngineStatistics sum() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const generation::Engine>> engines_;
  generation::EngineStatistics ended_;
};

/// Adds each of them.
void add_to(generation::EngineStatistics& sum, const generation::EngineStatistics& one);

/// Counters of text generation of one model.
struct GenerationStatistics {
  Histogram time_to_first_token;  ///< from the request's arrival
  Histogram time_between_tokens;
  std::atomic<std::uint64_t> prompt_tokens = 0, cached_tokens = 0,
                             generated_tokens = 0;  ///< of texts that are complete
  EngineCounts engines;
};

/// How requests of one model ended. Each is counted once. Kept when the model is reloaded. Thread-safe.
struct ModelStatistics {
  std::atomic<std::uint64_t> succeeded = 0, rejected = 0, cancelled = 0, expired = 0, invalid = 0, failed = 0;
  std::atomic<std::uint64_t> rows = 0;         ///< of those that succeeded
  std::atomic<std::int64_t> last_success = 0;  ///< of a request; steady clock, nanoseconds; 0: none yet
  std::atomic<std::int64_t> last_answer = 0;   ///< of the device, to a request or a probe; as last_success
  Histogram total, queue, input, compute, output;
  Histogram failure;  ///< from arrival to the error
  GenerationStatistics generation;
  /// What was used of the model's limits.
  std::shared_ptr<RequestLimiter> limiter = std::make_shared<RequestLimiter>();

  /// Counts a failure by what it was. `admitted`: the model took the request, so that resource_exhausted is said by its
  /// device, not by its queue.
  void count(const Error& error, std::chrono::steady_clock::time_point arrived, bool admitted = false) noexcept;
  void count(const runtime::RunReport& run);

  [[nodiscard]] std::map<std::int64_t, BatchStatistics> batches() const;  ///< by rows

  /// Number of requests that did not succeed.
  [[nodiscard]] std::uint64_t failures() const noexcept { return rejected + cancelled + expired + invalid + failed; }

  std::atomic<std::uint64_t> runs = 0;

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, BatchStatistics> batches_;
};

}  // namespace gpux::server
