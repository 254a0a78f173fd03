#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>

#include "base/cancellation.h"
#include "base/memory_budget.h"
#include "gpux/error.h"

namespace gpux::server {

class LimitedRequest;
class MemberRules;
class RequestReaders;
class RequestSpans;

/// By when a request has to be answered. Copies are of the same request: what one of them learns, as the model's own
/// limit, all of them know. Any thread.
class RequestDeadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// Brings the deadline forward to `time`, if that is earlier; empty: no change.
  void bring_forward(std::optional<Clock::time_point> time) const noexcept {
    if (!time) return;
    Clock::time_point latest = *latest_;
    while (*time < latest && !latest_->compare_exchange_weak(latest, *time)) {
    }
  }

  [[nodiscard]] std::optional<Clock::time_point> time() const noexcept {
    const Clock::time_point latest = *latest_;
    return latest == Clock::time_point::max() ? std::nullopt : std::optional(latest);
  }

 private:
  std::shared_ptr<std::atomic<Clock::time_point>> latest_ =
      std::make_shared<std::atomic<Clock::time_point>>(Clock::time_point::max());
};

/// Maximum bytes of a text that are tokenized in one piece. Longer texts are refused, unless a beginning within the
/// limit settles the tokens that count.
inline constexpr std::size_t max_text_bytes = 1 << 20;
/// Maximum number of tokens that are decoded to a text in one piece.
inline constexpr std::size_t max_text_tokens = 1 << 18;

/// Memory that tokenizing takes for each byte of a text: measured, 16 for each byte's place and 50 to 250 for tokens.
inline constexpr std::uint64_t tokenizer_bytes_per_byte = 300;

/// Work above this (in bytes of memory that it takes) is done by the readers and not by the thread that meets it: a few
/// milliseconds of tokenizing or decoding.
inline constexpr std::uint64_t work_here_bytes = 2048 * tokenizer_bytes_per_byte;

/// Shared state of the work for one request: cancellation, reader threads and the memory that it holds. Copies are of
/// the same request.
struct RequestWork {
  RequestReaders* readers = nullptr;     ///< null: the calling threads do all of it
  std::shared_ptr<MemoryBudget> memory;  ///< null: no limit
  std::stop_source stop;                 ///< its client has left
  RequestDeadline deadline;
  MemberRules* member_rules = nullptr;            ///< null: unknown members are refused
  std::shared_ptr<RequestSpans> spans = {};       ///< null: the request is not traced
  std::shared_ptr<LimitedRequest> limited = {};   ///< counts the tokens that it takes; null: nobody does
  std::shared_ptr<LimitedRequest> of_model = {};  ///< the same for the limits of its model

  void add_tokens(std::uint64_t count) const;

  [[nodiscard]] Cancellation cancellation() const { return Cancellation(stop.get_token(), deadline.time()); }

  /// Memory that is given back when the last copy goes. Error resource_exhausted where the server's requests hold too
  /// much; invalid_input where it is more than they may hold at all.
  [[nodiscard]] std::shared_ptr<MemoryShare> hold(std::uint64_t bytes, std::string_view what) const;
};

/// Grows `share`; errors as RequestWork::hold(). `what` takes the memory: "the answer".
void grow_share(MemoryShare& share, const std::shared_ptr<MemoryBudget>& memory, std::uint64_t bytes,
                std::string_view what);

/// In a handler of exceptions: what the request gets for it. Memory that is not there is resource_exhausted, what is no
/// Error internal.
[[nodiscard]] Error current_error() noexcept;

}  // namespace gpux::server
