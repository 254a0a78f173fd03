#include "registry/http/retry.h"

#include <algorithm>
#include <thread>

namespace gpux::registry {

bool is_transient_status(int status) noexcept {
  switch (status) {
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
    case 520:
    case 521:
    case 522:
    case 523:
    case 524:
      return true;
    default:
      return false;
  }
}

std::optional<std::chrono::milliseconds> retry_delay(const RetryPolicy& policy, const Attempt& attempt, double spread) {
  using Milliseconds = std::chrono::milliseconds;
  if (attempt.number >= policy.max_attempts) return std::nullopt;
  const bool may_succeed = attempt.status == 0 ? attempt.is_transient : is_transient_status(attempt.status);
  if (!may_succeed) return std::nullopt;
  if (attempt.retry_after) {
    if (*attempt.retry_after > policy.max_retry_after) return std::nullopt;
    return Milliseconds(*attempt.retry_after);
  }
  constexpr unsigned max_doublings = 20;
  const auto factor = std::int64_t{1} << std::min(attempt.number - 1, max_doublings);
  const Milliseconds delay = std::min(policy.first_delay * factor, policy.max_delay);
  return delay - Milliseconds(static_cast<std::int64_t>(static_cast<double>(delay.count()) / 2 * spread));
}

unsigned ResumedAttempts::failed_at(std::uint64_t bytes) noexcept {
  const bool is_forgiven = bytes >= furthest_ + min_progress_;
  failures_ = is_forgiven ? 1 : failures_ + 1;
  if (is_forgiven) furthest_ = bytes;
  return failures_;
}

void wait_for(std::chrono::milliseconds delay, const Cancellation& cancellation) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds step{50};
  const Clock::time_point end = Clock::now() + delay;
  cancellation.check();
  for (Clock::time_point now = Clock::now(); now < end; now = Clock::now()) {
    std::this_thread::sleep_for(std::min<Clock::duration>(step, end - now));
    cancellation.check();
  }
}

}  // namespace gpux::registry
