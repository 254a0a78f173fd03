#pragma once

#include <algorithm>
#include <chrono>

namespace gpux::server {

/// Whether a thread without work looks out for more for a while before it sleeps: to wake a sleeping thread costs tens
/// of microseconds where a processor idles. It does where that has lately paid off, and now and then to find out. One
/// for each thread.
class BusyPoll {
 public:
  /// `longest`: 0 for never.
  explicit BusyPoll(std::chrono::microseconds longest) noexcept : longest_(longest) {}

  /// How long to look out now. To be called once each time that there is nothing left to do.
  std::chrono::microseconds time() noexcept {
    if (trust_ > 0) return longest_;
    if (++slept_ < sleeps_between_tries) return std::chrono::microseconds(0);
    slept_ = 0;
    return longest_;
  }

  /// Whether work came while it polled.
  void learn(bool paid_off) noexcept { trust_ = paid_off ? std::min(trust_ + 1, max_trust) : std::max(trust_ - 2, 0); }

 private:
  static constexpr int sleeps_between_tries = 32;
  static constexpr int max_trust = 8;

  std::chrono::microseconds longest_;
  int trust_ = 0;  ///< so many times more, though it has not paid off
  int slept_ = 0;
};

}  // namespace gpux::server
