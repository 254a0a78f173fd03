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

/// Something that waits for its client to take or to send a message.
class WatchedTransfer {
 public:
  WatchedTransfer() = default;
  WatchedTransfer(const WatchedTransfer&) = delete;
  WatchedTransfer& operator=(const WatchedTransfer&) = delete;
  virtual ~WatchedTransfer() = default;

 protected:
  enum class GivenUp : std::uint8_t { as_late, for_memory };

 private:
  friend class TransferWatch;

  /// The client takes too long: give up. Called on the watch's thread under its lock: must not call the watch.
  virtual void give_up(GivenUp reason) = 0;

  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);
  std::size_t place_ = nowhere;
  std::chrono::steady_clock::time_point deadline_;
  std::chrono::steady_clock::time_point slow_from_;  // max() where it holds nothing
};

/// Gives up messages that clients do not take or send: each has `timeout` and besides a second for every
/// `min_bytes_per_second` of it, kept to within a twentieth of `timeout` or half a second. gRPC does not say how much
/// of a message is through, so that nothing shorter would do for clients that are merely slow. All members from any
/// thread.
class TransferWatch {
 public:
  TransferWatch(std::chrono::milliseconds timeout, std::uint64_t min_bytes_per_second);
  ~TransferWatch();
  TransferWatch(const TransferWatch&) = delete;
  TransferWatch& operator=(const TransferWatch&) = delete;

  /// Whether memory of the budget is released where a message is given up.
  enum class Holds : std::uint8_t { nothing, memory };

  /// A message of so many bytes begins, to be through by `latest` at any rate. It must be removed before it goes away,
  /// or another begins.
  void add(WatchedTransfer& transfer, std::uint64_t bytes, Holds holds,
           std::chrono::steady_clock::time_point latest = std::chrono::steady_clock::time_point::max());
  /// Stops watching a transfer. Does nothing if it is not watched.
  void remove(WatchedTransfer& transfer);

  /// Memory is short: gives up the message of 64 KiB or more that has waited longest, beyond what it would take at 1
  /// MiB per second, and beyond half a second.
  void release_memory();

 private:
  void take_out(WatchedTransfer& transfer);
  void sweep(const std::stop_token& stop);

  const std::chrono::milliseconds timeout_;
  const std::uint64_t min_bytes_per_second_;
  std::mutex mutex_;
  std::condition_variable_any ending_;
  std::vector<WatchedTransfer*> transfers_;
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace gpux::server
