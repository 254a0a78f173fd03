#pragma once

#include <optional>

#include "settings/worker_request.h"

namespace gpux::server {

/// The threads that compute the runs of a model.
struct ThreadPlan {
  WorkerRequest workers;
  bool workers_are_set = false;           ///< somebody asked for them
  std::optional<unsigned> intra_threads;  ///< threads inside an operator; empty: nobody said
  std::optional<unsigned> inter_threads;  ///< threads between operators; empty: 1
};

/// The plan with no more threads at the same time than `processors` (0: no limit): what nobody set becomes smaller than
/// the `cores` that a run has otherwise. Error invalid_config where what is set takes more. Pure.
ThreadPlan within_processors(ThreadPlan plan, unsigned processors, unsigned cores);

}  // namespace gpux::server
