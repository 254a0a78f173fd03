#include "library/one_at_a_time.h"

#include <memory>
#include <mutex>
#include <string>

namespace gpux {

PullListener one_at_a_time(const PullListener& listener) {
  const auto mutex = std::make_shared<std::mutex>();
  PullListener guarded;
  if (listener.on_progress) {
    guarded.on_progress = [mutex, call = listener.on_progress](const PullProgress& progress) {
      const std::lock_guard lock(*mutex);
      call(progress);
    };
  }
  if (listener.on_message) {
    guarded.on_message = [mutex, call = listener.on_message](const std::string& line) {
      const std::lock_guard lock(*mutex);
      call(line);
    };
  }
  return guarded;
}

}  // namespace gpux
