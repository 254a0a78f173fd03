#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace gpux::http {

/// How fast a body or an answer is transferred. It may fall behind `min_bytes_per_second` by `allowance`: a fast
/// beginning earns no more than that, so a transfer that stalls ends within `allowance`.
class TransferPace {
 public:
  using Clock = std::chrono::steady_clock;

  TransferPace() = default;

  TransferPace(Clock::time_point now, std::chrono::milliseconds allowance, std::uint64_t min_bytes_per_second)
      : allowance_(allowance),
        min_rate_(std::max<std::uint64_t>(min_bytes_per_second, 1)),
        deadline_(now + allowance),
        window_began_(now) {}

  void add(Clock::time_point now, std::uint64_t bytes) {
    const std::chrono::nanoseconds earned(
        static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(min_rate_)));
    deadline_ = std::min(deadline_ + earned, now + allowance_);
    if (now - window_began_ >= window) {
      rate_ = rate_of(now);
      window_began_ = now;
      window_bytes_ = 0;
    }
    window_bytes_ += bytes;
  }

  /// When it must be further on.
  [[nodiscard]] Clock::time_point deadline() const noexcept { return deadline_; }

  /// Bytes per second over the latest window; none before a first window has passed.
  [[nodiscard]] std::optional<double> bytes_per_second(Clock::time_point now) const {
    return now - window_began_ >= window ? rate_of(now) : rate_;
  }

 private:
  static constexpr std::chrono::milliseconds window{500};

  [[nodiscard]] double rate_of(Clock::time_point now) const {
    return static_cast<double>(window_bytes_) / std::chrono::duration<double>(now - window_began_).count();
  }

  std::chrono::milliseconds allowance_{0};
  std::uint64_t min_rate_ = 1;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point window_began_;
  std::uint64_t window_bytes_ = 0;
  std::optional<double> rate_;
};

}  // namespace gpux::http
