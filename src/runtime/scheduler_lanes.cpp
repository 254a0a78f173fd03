#include "runtime/scheduler_state.h"

namespace gpux::runtime {

bool Scheduler::State::may_run_here(const ScheduledEntry& entry) const noexcept {
  if (!entry.size_key || free_lanes.empty() || !queue.empty() || prepared != 0) return false;
  const bool can_share = !entry.shape_key.empty();
  if (can_share && options.batch.max_delay.count() != 0) return false;
  const bool in_company = can_share && counts.running != 0;
  return times.are_below(*entry.size_key, in_company ? options.quick_run_in_company : options.quick_run);
}

// What a worker does with a run of one request. The lane is held until the caller has its answer: the end of the
// scheduler waits for that.
void Scheduler::State::run_here(Lock& lock, const EntryPointer& entry) {
  Run run;
  run.entries.push_back(entry);
  run.awaited = 1;
  run.reserved = run.replica = free_lanes.back();
  free_lanes.pop_back();
  entry->run = &run;
  entry->times.queue = Clock::now() - entry->arrived;
  ++counts.running;
  ++counts.here;
  NamedValues inputs = std::move(entry->request.inputs);
  std::optional<Error> error;
  std::vector<Answer> answers;
  std::vector<NamedValues> results = compute(lock, run, {{0}, {entry->rows}}, inputs, error);
  settle(entry, error, error ? NamedValues() : std::move(results.front()), answers);
  entry->run = nullptr;
  if (run.overdue) --counts.overdue_runs;
  lock.unlock();
  const Clock::time_point answering = Clock::now();
  deliver(answers);
  inputs.clear();
  const Clock::duration answered = Clock::now() - answering;
  lock.lock();
  learn(run, answered);
  free_lanes.push_back(run.reserved);
  if (closed) all_quiet.notify_all();
}

}  // namespace gpux::runtime
