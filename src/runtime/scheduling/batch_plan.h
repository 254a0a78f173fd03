#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "gpux/tensor.h"

namespace gpux::runtime {

/// Limits of a batch, and the batching delay.
struct BatchLimits {
  std::int64_t max_rows = 32;              ///< rows of one run; 1: no batching. A request with more runs alone.
  std::chrono::microseconds max_delay{0};  ///< how long the oldest may wait for others while a replica is free
  std::size_t look_ahead = 64;             ///< requests behind the oldest that are looked at
  /// Elements of a run's largest input, padding counted; 0: no bound. A request with more runs alone. Whatever it is,
  /// padding makes no run larger than max_rows times the largest of its requests.
  std::int64_t max_cost = 0;
  bool counts_padding = true;  ///< false: what is filled up is not computed, and max_cost bounds the rest
  bool fills_rows = false;     ///< shared runs have filled_rows(): few sizes, where each costs a compilation
};

/// A waiting request, as the plan sees it.
struct WaitingRequest {
  std::string_view shape_key;  ///< requests with the same key can share a run; empty: runs alone
  std::int64_t rows = 1;       ///< size of the first dimension
  std::chrono::steady_clock::time_point arrived;
  /// The other sizes, of each input; under one key as many inputs of the same ranks. In a run each size is the largest
  /// among its requests. May be empty where all requests of a key agree in them and there is no max_cost.
  std::span<const Shape> row_shapes = {};
};

/// The next batch: `take` names the requests to run, or is empty until `wait_until`, or (both empty) until more arrive.
struct BatchPlan {
  std::vector<std::size_t> take;
  std::optional<std::chrono::steady_clock::time_point> wait_until;
};

/// Elements that a row of the largest input has. Beyond 64 bits: the largest number.
[[nodiscard]] std::int64_t row_cost(std::span<const Shape> row_shapes) noexcept;

/// The rows that a shared run of so many is filled up to: the next power of two, or the most that the limits allow,
/// where fills_rows; else `rows`. Runs of one row cost then have no more sizes than the logarithm of max_rows and two.
/// Never fewer than `rows`. `row_cost`: of the largest row. Pure.
[[nodiscard]] std::int64_t filled_rows(std::int64_t rows, std::int64_t row_cost, const BatchLimits& limits) noexcept;

/// Plans the next run. `waiting` is in the order of service; the first is always taken, joined by those within the
/// look-ahead whose key is the same and whose rows still fit within both bounds, in order. A batch is full where not
/// one row more would fit. Without a free replica only a full batch is taken, to be prepared meanwhile: one that is not
/// full may still grow. Pure.
BatchPlan plan_batch(std::span<const WaitingRequest> waiting, const BatchLimits& limits, bool replica_is_free,
                     std::chrono::steady_clock::time_point now);

}  // namespace gpux::runtime
