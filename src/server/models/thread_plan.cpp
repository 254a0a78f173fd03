#include "server/models/thread_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/counted.h"
#include "gpux/error.h"

namespace gpux::server {
namespace {

[[noreturn]] void refuse(unsigned processors, const std::string& asked) {
  throw Error(ErrorCode::invalid_config, fmt::format("limits.processors is {}, and {} asked for", processors, asked));
}

unsigned most_workers(unsigned most, unsigned limit) {
  return most == 0 ? limit : std::min(most, limit);
}

}  // namespace

ThreadPlan within_processors(ThreadPlan plan, unsigned processors, unsigned cores) {
  if (processors == 0) return plan;
  WorkerRequest& workers = plan.workers;
  if (workers.kind == WorkerRequest::Kind::cores) {
    refuse(processors, fmt::format("workers '{}', which share all processors out, are", to_string(workers)));
  }
  const unsigned between = plan.inter_threads.value_or(1);
  const unsigned threads = plan.intra_threads.value_or(1) * between;
  if (threads > processors) refuse(processors, fmt::format("{} per run are", counted(threads, "thread")));
  const unsigned runs = processors / threads;
  switch (workers.kind) {
    case WorkerRequest::Kind::count:
      if (workers.count > runs) {
        if (plan.workers_are_set) {
          refuse(processors,
                 fmt::format("{} with {} each are", counted(workers.count, "worker"), counted(threads, "thread")));
        }
        workers.count = runs;
      }
      break;
    case WorkerRequest::Kind::automatic:
      workers.most = most_workers(workers.most, runs);
      break;
    case WorkerRequest::Kind::devices:
    case WorkerRequest::Kind::cores:
      break;
  }
  if (!plan.intra_threads) plan.intra_threads = std::min(processors / between, std::max(1U, cores));
  return plan;
}

}  // namespace gpux::server
