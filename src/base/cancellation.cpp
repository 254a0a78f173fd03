#include "base/cancellation.h"

#include "gpux/error.h"

namespace gpux {

bool Cancellation::is_requested() const noexcept {
  return stop_.stop_requested() || (deadline_ && Clock::now() >= *deadline_);
}

void Cancellation::check() const {
  if (stop_.stop_requested()) throw Error(ErrorCode::interrupted, "the request was cancelled");
  if (deadline_ && Clock::now() >= *deadline_) {
    throw Error(ErrorCode::deadline_exceeded, "the deadline passed before the request was processed");
  }
}

}  // namespace gpux
