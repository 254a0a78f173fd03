#include "runtime/scheduling/batch_plan.h"

#include <algorithm>
#include <limits>

namespace gpux::runtime {
namespace {

std::int64_t times(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max() : product;
}

std::int64_t plus(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

// Each size the larger of the two.
std::int64_t padded_row_cost(std::span<const Shape> a, std::span<const Shape> b) noexcept {
  std::int64_t largest = 0;
  for (std::size_t input = 0; input < a.size(); ++input) {
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < a[input].size(); ++i) elements = times(elements, std::max(a[input][i], b[input][i]));
    largest = std::max(largest, elements);
  }
  return largest;
}

// What has been taken so far.
class PlannedRun {
 public:
  PlannedRun(const WaitingRequest& first, const BatchLimits& limits)
      : limits_(limits),
        alone_(first.shape_key.empty()),
        rows_(first.rows),
        row_shapes_(first.row_shapes.begin(), first.row_shapes.end()),
        row_cost_(row_cost(first.row_shapes)),
        largest_(times(rows_, row_cost_)),
        own_cost_(largest_) {}

  [[nodiscard]] bool full() const noexcept {
    if (alone_ || rows_ >= limits_.max_rows) return true;
    if (!limits_.counts_padding) return limits_.max_cost != 0 && own_cost_ >= limits_.max_cost;
    return limits_.max_cost != 0 && row_cost_ > limits_.max_cost - times(rows_, row_cost_);
  }

  // False where it does not fit: nothing has changed then.
  bool join(const WaitingRequest& next) {
    if (next.rows > limits_.max_rows - rows_) return false;
    const std::int64_t row = padded_row_cost(row_shapes_, next.row_shapes);
    const std::int64_t padded_cost = times(rows_ + next.rows, row);
    const std::int64_t next_cost = times(next.rows, row_cost(next.row_shapes));
    const std::int64_t largest = std::max(largest_, next_cost);
    const std::int64_t cost = limits_.counts_padding ? padded_cost : plus(own_cost_, next_cost);
    if (limits_.max_cost != 0 && cost > limits_.max_cost) return false;
    // Requests that are long in different dimensions would make a run of many times what they are together.
    if (padded_cost > times(limits_.max_rows, largest)) return false;
    rows_ += next.rows;
    row_cost_ = row;
    largest_ = largest;
    own_cost_ = plus(own_cost_, next_cost);
    for (std::size_t input = 0; input < row_shapes_.size(); ++input) {
      Shape& shape = row_shapes_[input];
      for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = std::max(shape[i], next.row_shapes[input][i]);
    }
    return true;
  }

 private:
  const BatchLimits& limits_;
  bool alone_;
  std::int64_t rows_;
  std::vector<Shape> row_shapes_;
  std::int64_t row_cost_;
  std::int64_t largest_;   // cost of the largest request without padding
  std::int64_t own_cost_;  // of all without padding
};

}  // namespace

std::int64_t row_cost(std::span<const Shape> row_shapes) noexcept {
  return padded_row_cost(row_shapes, row_shapes);
}

std::int64_t filled_rows(std::int64_t rows, std::int64_t row_cost, const BatchLimits& limits) noexcept {
  if (!limits.fills_rows || rows < 2) return rows;
  std::int64_t most = limits.max_rows;
  if (limits.max_cost != 0 && row_cost > 0) most = std::min(most, limits.max_cost / row_cost);
  std::int64_t filled = 1;
  while (filled < rows && filled <= most) filled *= 2;
  return std::max(rows, std::min(filled, most));
}

BatchPlan plan_batch(std::span<const WaitingRequest> waiting, const BatchLimits& limits, bool replica_is_free,
                     std::chrono::steady_clock::time_point now) {
  if (waiting.empty()) return {};
  const WaitingRequest& first = waiting.front();
  BatchPlan plan{.take = {0}, .wait_until = std::nullopt};
  PlannedRun run(first, limits);
  const std::size_t end = std::min(waiting.size(), limits.look_ahead + 1);
  for (std::size_t i = 1; i < end && !run.full(); ++i) {
    if (waiting[i].shape_key == first.shape_key && run.join(waiting[i])) plan.take.push_back(i);
  }
  if (run.full()) return plan;
  if (!replica_is_free) return {};
  if (const auto until = first.arrived + limits.max_delay; until > now) return {.take = {}, .wait_until = until};
  return plan;
}

}  // namespace gpux::runtime
