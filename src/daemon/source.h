#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "daemon/pipeline.h"
#include "daemon/state_file.h"

namespace gpux::daemon {

/// Dependencies and settings that a source works with.
struct SourceSurroundings {
  EventPipeline& pipeline;  ///< has to live until the source has stopped
  EventLimits limits;
  std::filesystem::path state_folder;  ///< for what it has to remember
  std::chrono::milliseconds rescan;
};

/// Status of a source. Counts are since its start.
struct SourceStatus {
  std::string name, kind;
  std::string state;                ///< "watching", or what it waits for
  std::uint64_t waiting = 0;        ///< events that are not embedded yet; of files by the mean length of a line
  std::uint64_t waiting_bytes = 0;  ///< bytes of files and journals that wait
  std::uint64_t taken = 0, written = 0, known = 0, refused = 0;
  std::uint64_t lost = 0;  ///< signals of the bus that could not be kept
};

/// Sleeps on file descriptors, until it is woken.
class Waker {
 public:
  /// Error storage.
  Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  /// Ends the sleep, or the next one. From any thread.
  void wake() noexcept;
  /// Waits until one of `descriptors` is readable, wake() is called, or the time has passed.
  void sleep(std::chrono::milliseconds time, std::initializer_list<int> descriptors = {});

  /// Can be read after wake().
  [[nodiscard]] int descriptor() const noexcept { return event_.get(); }

  void clear() noexcept;

 private:
  UniqueFd event_;
};

/// Watches where events come from, on a thread of its own. What it has to remember is written while it goes, so that it
/// may be killed at any time.
class Source : public std::enable_shared_from_this<Source> {
 public:
  Source(DeclaredSource declared, SourceSurroundings surroundings);
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  [[nodiscard]] const DeclaredSource& declared() const noexcept { return declared_; }

  /// Starts the thread. Called once.
  void start();
  /// Stops the thread. Events that the pipeline has taken are still processed.
  void stop();

  [[nodiscard]] SourceStatus status() const;

 protected:
  /// Runs until `stop`. An exception is reported, and it is run again later.
  virtual void run(const std::stop_token& stop) = 0;
  virtual void fill(SourceStatus& status) const = 0;

  [[nodiscard]] const SourceSurroundings& around() const noexcept { return surroundings_; }

  [[nodiscard]] Waker& waker() noexcept { return waker_; }

  /// Gives an event to the pipeline, when that has room; false where it was stopped before.
  bool give(WaitingEvent event, const std::stop_token& stop);

  /// Called by give() several times a second while there is no room: how much waits is to be known meanwhile, too.
  virtual void look_meanwhile() {}

  /// Says what it waits for, once; empty: it watches.
  void wait_for(const std::string& what);
  void count(Outcome outcome);

  void count_lost(std::uint64_t events = 1) { lost_ += events; }

 private:
  void run_until_stopped(const std::stop_token& stop);

  const DeclaredSource declared_;
  const SourceSurroundings surroundings_;
  Waker waker_;
  std::atomic<std::uint64_t> taken_ = 0, written_ = 0, known_ = 0, refused_ = 0, lost_ = 0;
  mutable std::mutex state_mutex_;
  std::string waits_for_ = "it has not begun";
  std::jthread thread_;
};

/// Makes a source of the declared kind.
std::shared_ptr<Source> make_source(const DeclaredSource& declared, const SourceSurroundings& surroundings);

}  // namespace gpux::daemon
