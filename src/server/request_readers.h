#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace gpux::server {

/// Threads that take long requests apart, so that those that read and write go on meanwhile. Started when first needed.
class RequestReaders {
 public:
  explicit RequestReaders(unsigned threads) : most_threads_(threads) {}

  /// Does what it was given, and waits for it.
  ~RequestReaders();
  RequestReaders(const RequestReaders&) = delete;
  RequestReaders& operator=(const RequestReaders&) = delete;

  /// `task` runs on one of the threads, in the order of calls. It must not throw.
  void post(std::function<void()> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0;
  bool ended_ = false;
  unsigned most_threads_;
  std::vector<std::thread> threads_;
};

}  // namespace gpux::server
