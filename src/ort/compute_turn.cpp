#include "ort/compute_turn.h"

#include <algorithm>

namespace gpux::ort {

bool ComputeTurn::take(const std::atomic<bool>& is_stopped) {
  std::unique_lock lock(mutex_);
  const std::uint64_t own = ++last_;
  waiting_.push_back(own);
  changed_.wait(lock, [&] { return is_stopped || (free_ != 0 && waiting_.front() == own); });
  const bool has_turn = !is_stopped;
  waiting_.erase(std::ranges::find(waiting_, own));
  if (has_turn) --free_;
  lock.unlock();
  changed_.notify_all();  // another one may be first now
  return has_turn;
}

void ComputeTurn::give_back() {
  {
    const std::scoped_lock lock(mutex_);
    ++free_;
  }
  changed_.notify_all();
}

void ComputeTurn::wake() {
  {
    // One that has looked, and does not wait yet, would miss it.
    const std::scoped_lock lock(mutex_);
  }
  changed_.notify_all();
}

}  // namespace gpux::ort
