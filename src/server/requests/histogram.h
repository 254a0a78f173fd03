#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gpux::server {

/// Counts durations in buckets. Thread-safe.
class Histogram {
 public:
  /// Upper bounds in seconds; what is longer goes into one more bucket.
  static constexpr std::array<double, 16> bounds{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                 0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};

  void add(std::chrono::nanoseconds duration) noexcept;
  [[nodiscard]] std::uint64_t count() const noexcept;
  [[nodiscard]] std::chrono::nanoseconds sum() const noexcept;
  /// Count of one bucket, not cumulative. Index bounds.size() is the bucket above all bounds.
  [[nodiscard]] std::uint64_t in_bucket(std::size_t index) const noexcept;

 private:
  std::array<std::atomic<std::uint64_t>, bounds.size() + 1> counts_{};
  std::atomic<std::int64_t> nanoseconds_ = 0;
};

}  // namespace gpux::server
