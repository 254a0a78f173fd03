#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace gpux_cpu {

/// Runs that can be stopped while they compute. ONNX Runtime does not inform a node that its run was cancelled. The
/// caller names the run in the run option "gpux.run", and sets the session's dynamic option "gpux.stop" to that name.
/// Any thread may call.
class NamedRuns {
 public:
  using Flag = std::shared_ptr<std::atomic<bool>>;

  /// On the thread that computes, too: current() is this run's until end().
  void begin(const std::string& name) {
    current_ = std::make_shared<std::atomic<bool>>(false);
    const std::lock_guard lock(mutex_);
    flags_[name] = current_;
  }

  void end(const std::string& name) {
    current_.reset();
    const std::lock_guard lock(mutex_);
    flags_.erase(name);
  }

  /// A run of another name, or one that has ended, is left alone.
  void stop(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (const auto found = flags_.find(name); found != flags_.end()) *found->second = true;
  }

  /// The flag of the run on this thread; null where it has no name.
  static const Flag& current() noexcept { return current_; }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, Flag> flags_;
  static inline thread_local Flag current_;
};

}  // namespace gpux_cpu
