#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace gpux::server {

/// Whether a model's chat template renders quickly, by how long it took before: the model's author wrote it, so that
/// nothing else tells. Any thread.
class RenderPace {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds slow{5};
  /// A template that was slow once is not trusted for so long: what it does depends on the request.
  static constexpr std::chrono::seconds distrust{60};

  void note(std::chrono::nanoseconds took, Clock::time_point now) noexcept {
    if (took >= slow) {
      quick_from_ = (now + distrust).time_since_epoch().count();
    } else {
      std::int64_t never = unknown;
      quick_from_.compare_exchange_strong(never, now.time_since_epoch().count());
    }
  }

  /// False until the first note().
  [[nodiscard]] bool is_quick(Clock::time_point now) const noexcept {
    return now.time_since_epoch().count() >= quick_from_;
  }

 private:
  static constexpr std::int64_t unknown = INT64_MAX;
  std::atomic<std::int64_t> quick_from_ = unknown;  ///< of Clock
};

}  // namespace gpux::server
