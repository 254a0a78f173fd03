#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/processors.h"
#include "gpux/runtime.h"
#include "provider/device_memory.h"
#include "runtime/scheduling/scheduler.h"
#include "settings/worker_request.h"

namespace gpux::server {

/// A model's sessions and how they are shared out. Unless WorkerRequest::Kind::cores was asked for, no thread is bound
/// to a processor: the kernel alone knows what other processes, and other replicas, run there.
struct Workers {
  std::vector<std::shared_ptr<const Runtime>> sessions;  ///< at least one
  unsigned replicas = 1;                                 ///< runs of each session that compute at a time
  unsigned in_flight = 0;                                ///< with those that only copy; 0: `replicas`
  std::vector<ProcessorShare> shares;                    ///< of each session; empty: they share all processors
  std::string choice;                                    ///< the choice and its reason, for messages; empty: no choice

  /// The first session on each of the devices, in the order of Replica::device(). A session whose device is not known
  /// counts as one on a device of its own.
  [[nodiscard]] std::vector<std::shared_ptr<const Runtime>> devices() const;

  /// Replica::device() of the replicas of a session, an index into `sessions`.
  [[nodiscard]] std::size_t device_number(std::size_t session) const;

  [[nodiscard]] std::vector<std::unique_ptr<runtime::Replica>> make_replicas() const;

  /// Runs that compute at a time on one device; 0: all that are on their way.
  [[nodiscard]] std::size_t computing_per_device() const;

  /// For messages, as "cuda device 1 (NVIDIA H100 80GB HBM3)", in the order of Replica::device().
  [[nodiscard]] std::vector<std::string> device_names() const;
};

/// Loads what the request needs. `load` makes a session; `threads_are_set`: the user said how many threads, so that
/// several replicas keep them. Errors of the load.
Workers load_workers(const WorkerRequest& request, const LoadOptions& options, bool threads_are_set,
                     const std::function<Runtime(const LoadOptions&)>& load);

/// load_workers() of what owns its session, as an engine that generates text does: one session each, whose runs are its
/// own. Error usage for several workers of one session, and for `auto`, which measures them.
Workers load_owners(const WorkerRequest& request, const LoadOptions& options, bool threads_are_set,
                    const std::function<std::shared_ptr<const Runtime>(const LoadOptions&)>& load);

/// The devices that sessions can be placed on, with `first` first, and how much is free of each by `memory`. `most`: at
/// most so many; 0: no limit. Pure.
std::vector<provider::DeviceRoom> rooms_of(std::span<const Device> devices, std::optional<unsigned> first,
                                           unsigned most, const std::map<std::string, provider::DeviceMemory>& memory);

/// The device of the first provider that holds nodes and has one; null where none is known.
const Device* device_of(const Verdict& verdict) noexcept;

/// The decision of `auto`, on runs per second: one session with all threads, or `processors` replicas of one thread.
/// Replicas must win by a tenth, as they make a single request slower. Pure.
bool should_replicate(double shared_runs_per_s, double replicated_runs_per_s) noexcept;

}  // namespace gpux::server
