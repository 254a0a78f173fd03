#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "server/models/load_jobs.h"
#include "server/models/model_reaper.h"
#include "server/models/model_repository.h"
#include "server/models/model_table.h"

namespace gpux::server {

/// State that a repository's callers and its loader share. All but the options and the reaper under the lock.
struct RepositoryState {
  explicit RepositoryState(const RepositoryOptions& given) : options(given) {}

  RepositoryOptions options;
  std::shared_ptr<ModelReaper> reaper = std::make_shared<ModelReaper>();

  std::mutex mutex;
  std::condition_variable changed;  ///< the jobs, or what follows
  ModelTable table;
  LoadJobs jobs;
  std::uint64_t uses = 0;  ///< of models
  bool ended = false;
  bool loading_ended = false;  ///< the loader is past its last job

  /// Tells the requester how its job ended, unless that has been done. Without the lock.
  void answer(std::uint64_t number, const std::optional<Error>& failure);
};

}  // namespace gpux::server
