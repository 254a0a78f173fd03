#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace gpux::server {

/// Something that waits for its client to take a message.
class WatchedWrite {
 public:
  WatchedWrite() = default;
  WatchedWrite(const WatchedWrite&) = delete;
  WatchedWrite& operator=(const WatchedWrite&) = delete;
  virtual ~WatchedWrite() = default;

 private:
  friend class WriteWatch;

  /// The client takes too long: give up. Called on the watch's thread under its lock: must not call the watch.
  virtual void give_up() = 0;

  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);
  std::size_t place_ = nowhere;
  std::chrono::steady_clock::time_point deadline_;
};

/// Gives up writes that their clients do not take: each has `timeout` and besides a second for every
/// `min_bytes_per_second` of it, kept to within a twentieth of `timeout`. gRPC does not say how much of a message has
/// been taken, so that nothing shorter would do for clients that are merely slow. All members from any thread.
class WriteWatch {
 public:
  WriteWatch(std::chrono::milliseconds timeout, std::uint64_t min_bytes_per_second);
  ~WriteWatch();
  WriteWatch(const WriteWatch&) = delete;
  WriteWatch& operator=(const WriteWatch&) = delete;

  /// A write of so many bytes begins. It must be removed before it goes away.
  void add(WatchedWrite& write, std::uint64_t bytes);
  /// It is over. Nothing happens where it is not watched.
  void remove(WatchedWrite& write);

 private:
  void take_out(WatchedWrite& write);
  void sweep(const std::stop_token& stop);

  const std::chrono::milliseconds timeout_;
  const std::uint64_t min_bytes_per_second_;
  std::mutex mutex_;
  std::condition_variable_any ending_;
  std::vector<WatchedWrite*> writes_;
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace gpux::server
