#include "daemon/completed_prefix.h"

namespace gpux::daemon {

std::uint64_t CompletedPrefix::begin(std::uint64_t end) {
  events_.push_back({end});
  ++open_;
  return first_ + events_.size() - 1;
}

void CompletedPrefix::complete(std::uint64_t number) {
  events_[number - first_].done = true;
  --open_;
  while (!events_.empty() && events_.front().done) {
    offset_ = events_.front().end;
    events_.pop_front();
    ++first_;
  }
}

}  // namespace gpux::daemon
