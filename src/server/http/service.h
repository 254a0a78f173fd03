#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/memory_budget.h"
#include "server/http/server.h"

namespace gpux::http {

/// State that all connections of an HTTP server share.
struct Service {
  Limits limits;
  Handler handler;
  Admission admission;
  std::shared_ptr<MemoryBudget> memory;

  std::atomic<bool> leaving{false};  ///< an answer is the last one of its connection
  std::atomic<bool> draining{false};
  std::atomic<std::uint64_t> connections_open{0};
  std::atomic<std::uint64_t> connections_accepted{0};
  std::atomic<std::uint64_t> connections_refused{0};

  /// A connection has ended.
  void connection_ended() {
    const std::lock_guard lock(ended_mutex);
    connections_open.fetch_sub(1);
    ended.notify_all();
  }

  std::mutex ended_mutex;
  std::condition_variable ended;
};

}  // namespace gpux::http
