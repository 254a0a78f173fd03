#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "server/telemetry/span.h"

namespace gpux::server {

/// A duration that was counted, and the span of its request, which a trace has. Source: OpenMetrics 1.0, "Exemplars".
struct Exemplar {
  TraceId trace{};
  SpanId span{};
  double seconds = 0;
  std::chrono::system_clock::time_point time;
};

/// Counts durations in buckets. Thread-safe.
class Histogram {
 public:
  /// Upper bounds in seconds; what is longer goes into one more bucket.
  static constexpr std::array<double, 16> bounds{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                 0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};

  /// `traced`: of the request, becomes the exemplar of its bucket; null: it is not recorded.
  void add(std::chrono::nanoseconds duration, const SpanContext* traced = nullptr) noexcept;
  [[nodiscard]] std::uint64_t count() const noexcept;
  [[nodiscard]] std::chrono::nanoseconds sum() const noexcept;
  /// Count of one bucket, not cumulative. Index bounds.size() is the bucket above all bounds.
  [[nodiscard]] std::uint64_t in_bucket(std::size_t index) const noexcept;
  /// The last one of the bucket that was recorded.
  [[nodiscard]] std::optional<Exemplar> exemplar(std::size_t index) const noexcept;

 private:
  std::array<std::atomic<std::uint64_t>, bounds.size() + 1> counts_{};
  std::atomic<std::int64_t> nanoseconds_ = 0;
  mutable std::mutex mutex_;
  std::unique_ptr<std::array<Exemplar, bounds.size() + 1>> exemplars_;  // null: nothing was recorded
};

}  // namespace gpux::server
