#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>

#include "base/unique_fd.h"
#include "server/http/asio.h"
#include "server/http/busy_poll.h"
#include "server/http/service.h"

namespace gpux::http {

class Connection;

/// Counted by one thread, read by any.
class Count {
 public:
  void add(std::uint64_t more) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  [[nodiscard]] std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// A thread and the connections that live on it. Members without a note belong to that thread.
class Loop {
 public:
  Loop(Service& service, std::chrono::microseconds busy_poll);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  struct Arrival {
    UniqueFd socket;
    int family = 0;
    std::shared_ptr<net::ssl::context> tls;  ///< null without
    std::string peer;
  };

  // Any thread.
  void start();
  /// Takes a connected, non-blocking socket over.
  void adopt(Arrival arrival);
  /// Gives up the slowest of the slow transfers that hold memory, if there is one.
  void release_memory();
  /// Begins to close connections as they become idle.
  void begin_drain();
  /// Ends all connections and then the thread, and waits for it.
  void end();

  [[nodiscard]] net::io_context& context() noexcept { return context_; }

  [[nodiscard]] std::size_t connections() const noexcept { return connection_count_.load(std::memory_order_relaxed); }

  [[nodiscard]] bool is_ending() const noexcept { return ending_; }

  std::list<Connection*>::iterator enter(Connection& connection);
  void leave(std::list<Connection*>::iterator place);
  /// "Sun, 06 Nov 1994 08:49:37 GMT", now.
  std::string_view date();

  /// Memory of Service::limits.max_header_bytes, at least 16 KiB, that connections share.
  using Buffer = std::unique_ptr<char[]>;
  Buffer take_buffer();
  void give_buffer(Buffer buffer);

  [[nodiscard]] std::size_t buffer_bytes() const noexcept { return buffer_bytes_; }

  Count requests;
  Count requests_refused;
  Count handled;
  Count answered;
  Count cut_off_at_deadline;
  Count cut_off_as_slow;
  Count cut_off_for_memory;
  Count received_bytes;
  Count sent_bytes;

 private:
  void run();
  void run_some();
  bool look_out(std::chrono::microseconds time);
  void schedule_sweep();
  void sweep();
  void welcome(Arrival arrival);
  std::vector<std::shared_ptr<Connection>> all();

  Service& service_;
  net::io_context context_{1};
  std::optional<net::executor_work_guard<Executor>> work_;
  std::chrono::milliseconds sweep_interval_;
  std::size_t buffer_bytes_;
  std::list<Connection*> connections_;
  std::atomic<std::size_t> connection_count_{0};
  std::vector<Buffer> spare_buffers_;
  std::time_t date_second_ = 0;
  std::array<char, 32> date_{};
  bool ending_ = false;
  std::atomic<bool> is_releasing_ = false;
  server::BusyPoll busy_poll_;
  Timer sweep_timer_;
  std::thread thread_;
};

}  // namespace gpux::http
