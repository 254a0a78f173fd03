#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/cancellation.h"

namespace gpux::registry {

/// When a request is sent again.
struct RetryPolicy {
  unsigned max_attempts = 5;  ///< with the first; 1: never again
  std::chrono::milliseconds first_delay{500};
  std::chrono::milliseconds max_delay{20'000};
  std::chrono::seconds max_retry_after{60};  ///< a server that wants a longer wait is not waited for
};

/// Outcome of an attempt of a request.
struct Attempt {
  unsigned number = 1;                                   ///< from 1
  int status = 0;                                        ///< HTTP status of the answer; 0: no answer
  bool is_transient = false;                             ///< no answer came, and the next attempt may get one
  std::optional<std::chrono::seconds> retry_after = {};  ///< what the server wants
};

/// Whether the answer says that a later attempt may succeed: 408, 429, 500, 502, 503, 504 and those of CDNs (520 to
/// 524).
bool is_transient_status(int status) noexcept;

/// How long to wait before the next attempt; empty: there is none. The delay doubles with each attempt, up to
/// max_delay, and `spread`, from 0 to 1, takes up to half of it off, so that clients do not return at the same moment.
/// A server's Retry-After is obeyed. Pure.
std::optional<std::chrono::milliseconds> retry_delay(const RetryPolicy& policy, const Attempt& attempt, double spread);

/// Counts the attempts of a transfer that continues where the one before ended. A value.
class ResumedAttempts {
 public:
  /// `begin`: the bytes that were there before; `min_progress`: of an attempt that is forgiven.
  explicit ResumedAttempts(std::uint64_t begin, std::uint64_t min_progress = std::uint64_t{64} << 10)
      : furthest_(begin), min_progress_(min_progress) {}

  /// An attempt ended with so many bytes there. Its number for a RetryPolicy: one more than that of the attempt before,
  /// or 1 where so much more is there than ever before.
  unsigned failed_at(std::uint64_t bytes) noexcept;

 private:
  std::uint64_t furthest_, min_progress_;
  unsigned failures_ = 0;
};

/// Waits for so long. Errors of Cancellation::check(), some hundredths of a second late at most.
void wait_for(std::chrono::milliseconds delay, const Cancellation& cancellation);

}  // namespace gpux::registry
