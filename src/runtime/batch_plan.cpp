#include "runtime/batch_plan.h"

#include <algorithm>

namespace gpux::runtime {

BatchPlan plan_batch(std::span<const WaitingRequest> waiting, const BatchLimits& limits, bool replica_is_free,
                     std::chrono::steady_clock::time_point now) {
  if (waiting.empty()) return {};
  const WaitingRequest& first = waiting.front();
  BatchPlan plan{.take = {0}, .wait_until = std::nullopt};
  std::int64_t rows = first.rows;
  bool full = first.shape_key.empty() || rows >= limits.max_rows;
  const std::size_t end = std::min(waiting.size(), limits.look_ahead + 1);
  for (std::size_t i = 1; i < end && !full; ++i) {
    const WaitingRequest& next = waiting[i];
    if (next.shape_key != first.shape_key) continue;
    if (next.rows > limits.max_rows - rows) continue;
    plan.take.push_back(i);
    rows += next.rows;
    full = rows == limits.max_rows;
  }
  if (full) return plan;
  if (!replica_is_free) return {};
  if (const auto until = first.arrived + limits.max_delay; until > now) return {.take = {}, .wait_until = until};
  return plan;
}

}  // namespace gpux::runtime
