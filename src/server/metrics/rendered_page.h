#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "server/http/message.h"

namespace gpux::server {

/// A page that requests which came together share: rendered for the first of them only. Shared by threads.
class RenderedPage {
 public:
  using Clock = std::chrono::steady_clock;

  /// The page as rendered no earlier than `received`; `render` is called where there is none.
  http::Piece not_before(Clock::time_point received, const std::function<std::string()>& render) {
    const std::lock_guard lock(mutex_);
    if (page_.owner == nullptr || began_ < received) {
      const Clock::time_point began = Clock::now();
      page_ = http::Piece::of(render());
      began_ = began;
    }
    return page_;
  }

 private:
  std::mutex mutex_;
  Clock::time_point began_;
  http::Piece page_;
};

}  // namespace gpux::server
