#include "runtime/scheduling/scheduler_state.h"

namespace gpux::runtime {

bool Scheduler::State::may_run_here(const ScheduledEntry& entry) const noexcept {
  if (!entry.size_key || free_lanes.empty() || !queue.empty() || prepared != 0) return false;
  const bool can_share = !entry.shape_key.empty();
  if (can_share && options.batch.max_delay.count() != 0) return false;
  const bool may_be_batched = can_share && counts.running != 0;
  return times.are_below(*entry.size_key, may_be_batched ? options.quick_run_if_batchable : options.quick_run);
}

// Held until the caller has its answer: the end of the scheduler waits for it.
class Scheduler::State::Lane {
 public:
  Lane(State& state, Lock& lock) : state_(state), lock_(lock), replica_(state.free_lanes.back()) {
    state_.free_lanes.pop_back();
  }

  ~Lane() {
    if (!lock_.owns_lock()) lock_.lock();
    state_.free_lanes.push_back(replica_);
    if (state_.closed) state_.all_quiet.notify_all();
  }

  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  [[nodiscard]] Replica* replica() const noexcept { return replica_; }

 private:
  State& state_;
  Lock& lock_;
  Replica* replica_;
};

// What a worker does with a run of one request.
void Scheduler::State::run_here(Lock& lock, const EntryPointer& entry) {
  const Lane lane(*this, lock);
  Run run;
  run.entries.push_back(entry);
  run.awaited = 1;
  run.reserved = run.replica = lane.replica();
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
}

}  // namespace gpux::runtime
