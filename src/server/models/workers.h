#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpux/runtime.h"
#include "runtime/scheduling/scheduler.h"

namespace gpux::server {

/// How many runs of a model may go on side by side.
struct WorkerRequest {
  enum class Kind : std::uint8_t {
    count,      ///< so many; one uses all threads, several use one each
    automatic,  ///< one with all threads, or one a processor: whichever gets more done, measured
    devices,    ///< one session on each device of the provider
  };
  Kind kind = Kind::count;
  unsigned count = 1;
  unsigned most = 0;  ///< for automatic and devices; 0: no limit
};

/// Reads "4", "auto", "devices". Error usage that names `said_by`.
WorkerRequest worker_request_from(const std::string& text, const std::string& said_by);

/// A model's sessions and how they are shared out. No thread is bound to a processor: the kernel alone knows what other
/// processes, and other replicas, run there.
struct Workers {
  std::vector<std::shared_ptr<const Runtime>> sessions;  ///< at least one
  unsigned replicas = 1;                                 ///< runs at a time of each session
  std::string choice;                                    ///< the choice and its reason, for messages; empty: no choice

  [[nodiscard]] std::vector<std::unique_ptr<runtime::Replica>> make_replicas() const;
};

/// Loads what the request needs. `load` makes a session; `threads_are_set`: the user said how many threads, so that
/// several replicas keep them. Errors of the load.
Workers load_workers(const WorkerRequest& request, const LoadOptions& options, bool threads_are_set,
                     const std::function<Runtime(const LoadOptions&)>& load);

/// The device of each session that `devices` makes, at least one: `chosen`, else the first of the provider's devices,
/// then the others in order. `most`: at most so many; 0: no limit. Pure.
std::vector<unsigned> devices_of_workers(std::span<const Device> devices, std::optional<unsigned> chosen,
                                         unsigned most);

/// The decision of `auto`, on runs per second: one session with all threads, or `processors` replicas of one thread.
/// Replicas must win by a tenth, as they make a single request slower. Pure.
bool replicas_are_worth_it(double shared_runs_per_s, double replicated_runs_per_s) noexcept;

}  // namespace gpux::server
