#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/error.h"

namespace gpux::server {

/// A job of the loader's thread: loading or restoring a model, or refreshing the sources.
struct LoadJob {
  enum class Kind : std::uint8_t { load, restore, refresh };

  Kind kind;
  std::string name, version;
  std::optional<std::string> config;      ///< of a load: RepositoryOptions::configure
  std::vector<std::uint64_t> requesters;  ///< numbers of those who are to be told how it ended
  bool is_cancelled = false;              ///< the model was unloaded while the job ran

  [[nodiscard]] bool is_about(std::string_view model) const { return kind != Kind::refresh && name == model; }
};

/// The jobs that wait, the one that runs, and those who wait for their ends. Under the repository's lock.
class LoadJobs {
 public:
  using Done = std::function<void(const std::optional<Error>&)>;

  /// Puts the job at the end of the queue, or joins one that waits there and does the same.
  LoadJob& add(LoadJob::Kind kind, std::string_view name, std::string_view version,
               std::optional<std::string> config = {});

  /// Returns the requester's number.
  std::uint64_t add_requester(LoadJob& job, Done done);

  /// A number for somebody who waits.
  std::uint64_t next_number() { return ++numbers_; }

  /// The requester's callback, to be called without the lock; null where it was taken before.
  [[nodiscard]] Done take_requester(std::uint64_t number);

  [[nodiscard]] std::map<std::uint64_t, Done> take_all_requesters();

  [[nodiscard]] bool empty() const noexcept { return waiting_.empty(); }

  /// The first in the queue, which is not empty; it runs until finish().
  std::shared_ptr<LoadJob> start_next();

  void finish() { running_.reset(); }

  /// Drops all queued jobs.
  void clear() { waiting_.clear(); }

  /// Drops the jobs about the model, and cancels the one that runs; returns the numbers of their requesters.
  [[nodiscard]] std::vector<std::uint64_t> cancel(std::string_view model);

 private:
  std::deque<std::shared_ptr<LoadJob>> waiting_;
  std::shared_ptr<LoadJob> running_;  // null: the loader waits
  std::uint64_t numbers_ = 0;
  std::map<std::uint64_t, Done> requesters_;  // of those who are not answered yet
};

}  // namespace gpux::server
