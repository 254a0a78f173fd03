#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "isolation/run_channel.h"
#include "isolation/shared_memory_budget.h"
#include "isolation/worker_process.h"

namespace gpux::isolation {

/// The channels of one worker, one for each run in progress. Members from any thread.
class RunChannels {
 public:
  /// The channels of a worker, which is started before the first channel is taken. Both arguments outlive this.
  RunChannels(const WorkerProcess& worker, SharedMemoryBudget& results) : worker_(worker), results_(results) {}

  /// The one that was used last, so that few of them take memory. Null if the worker has ended, or was retired. Error
  /// resource_exhausted.
  std::unique_ptr<RunChannel> take();

  /// After take(), unless the worker has ended.
  void give_back(std::unique_ptr<RunChannel> channel);

  /// In place of give_back(), for a channel that is closed.
  void drop();

  /// Gives out no channel from now on, unless one is in use. False: one is.
  bool retire();

 private:
  [[nodiscard]] std::unique_ptr<RunChannel> open(std::uint64_t number);

  const WorkerProcess& worker_;
  SharedMemoryBudget& results_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<RunChannel>> idle_;
  std::uint64_t opened_ = 0;
  std::size_t in_use_ = 0;
  bool is_retired_ = false;
};

}  // namespace gpux::isolation
