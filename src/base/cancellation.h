#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <utility>

namespace gpux {

/// When the work for a request ends early: its client has left, the server shuts down, or its deadline has passed.
/// Copies share their state; any thread. The default never ends anything.
class Cancellation {
 public:
  using Clock = std::chrono::steady_clock;

  Cancellation() = default;

  explicit Cancellation(std::stop_token stop, std::optional<Clock::time_point> deadline = std::nullopt)
      : stop_(std::move(stop)), deadline_(deadline) {}

  [[nodiscard]] bool is_requested() const noexcept;

  /// Call between units of work. Error interrupted after a stop, deadline_exceeded after the deadline.
  void check() const;

  [[nodiscard]] const std::optional<Clock::time_point>& deadline() const noexcept { return deadline_; }

 private:
  std::stop_token stop_;
  std::optional<Clock::time_point> deadline_;
};

}  // namespace gpux
