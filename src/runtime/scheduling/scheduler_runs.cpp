#include <algorithm>

#include "base/log.h"
#include "runtime/scheduling/scheduler_state.h"

namespace gpux::runtime {
namespace {

// What the call throws.
template <typename Call>
std::optional<Error> failure_of(const Call& call) {
  try {
    call();
  } catch (const Error& failure) {
    return failure;
  } catch (const std::exception& failure) {
    return Error(ErrorCode::internal, failure.what());
  }
  return std::nullopt;
}

}  // namespace

std::vector<WaitingRequest> Scheduler::State::waiting_requests() const {
  std::vector<WaitingRequest> waiting;
  const std::size_t count = std::min(queue.size(), options.batch.look_ahead + 1);
  waiting.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    waiting.push_back({queue[i]->shape_key, queue[i]->rows, queue[i]->arrived, queue[i]->row_shapes});
  }
  return waiting;
}

// How long a run took with its answers. Each of several requests alone would have taken no longer.
void Scheduler::State::learn(const Run& run, Clock::duration answering) {
  for (const EntryPointer& entry : run.entries) {
    const std::optional<std::uint64_t> key = entry->size_key;
    if (!key || entry->times.batch_requests == 0) continue;  // it never ran
    const auto time = entry->times.compute + entry->times.output + answering;
    // A failure may be over sooner than a success would be.
    if (!run.failed || time > options.quick_run) times.add(*key, time);
  }
}

// Waits for something to run; false at the end.
bool Scheduler::State::take(Lock& lock, Run& run) {
  for (;;) {
    const Clock::time_point now = Clock::now();
    if (take_trial(run, now)) return true;
    // The prepared run comes first, and there is one at most.
    const bool has_replica = free.size() > prepared;
    BatchPlan plan;
    if (has_replica || prepared == 0) {
      plan = plan_batch(waiting_requests(), options.batch, has_replica && may_compute_now(), now);
    }
    if (!plan.take.empty()) {
      if (has_replica) {
        run.reserved = take_free();
      } else {
        ++prepared;
      }
      for (const std::size_t index : plan.take) {
        EntryPointer& entry = queue[index];
        entry->run = &run;
        entry->times.queue = now - entry->arrived;
        waiting_rows -= entry->rows;
        run.inputs.push_back(std::move(entry->request.inputs));
        run.entries.push_back(std::move(entry));
      }
      queue.erase(std::remove(queue.begin(), queue.end(), nullptr), queue.end());
      run.awaited = run.entries.size();
      counts.running += run.entries.size();
      return true;
    }
    if (ended) return false;
    ++planning_idle;
    const auto trial = next_trial();
    if (trial && (!plan.wait_until || *trial < *plan.wait_until)) plan.wait_until = trial;
    if (plan.wait_until) {
      arrived.wait_until(lock, *plan.wait_until);
    } else {
      arrived.wait(lock);
    }
    --planning_idle;
  }
}

// Whether one of those that wait to plan would find something to take: woken for each request, they would mostly go
// back to sleep.
bool Scheduler::State::planner_has_work() const noexcept {
  if (planning_idle == 0 || queue.empty()) return false;
  const bool has_replica = free.size() > prepared;
  if (has_replica && may_compute_now()) return true;
  return (has_replica || prepared == 0) && may_be_full();
}

// Whether what waits could make a full batch. False only where it cannot.
bool Scheduler::State::may_be_full() const noexcept {
  const ScheduledEntry& first = *queue.front();
  if (first.shape_key.empty() || waiting_rows >= options.batch.max_rows) return true;
  if (options.batch.max_cost == 0) return false;
  // Padding may make rows longer than the first's.
  if (options.padding != nullptr) return true;
  const std::int64_t row = row_cost(first.row_shapes);
  return row != 0 && waiting_rows >= options.batch.max_cost / row;
}

// Lets another thread plan while this one is busy with results.
void Scheduler::State::pass_on() {
  if (prepared != 0) {
    freed.notify_one();
  } else if (planner_has_work()) {
    arrived.notify_one();
  }
}

// Runs a group of the run's entries on its replica; their results, or the error of all of them.
std::vector<NamedValues> Scheduler::State::compute(Lock& lock, Run& run, const BatchGroup& group,
                                                   const NamedValues& joined, std::optional<Error>& error) {
  const std::vector<std::size_t> outputs = run.entries[group.items.front()]->request.outputs;
  ++counts.runs;
  ScheduledDevice& device = devices[run.replica->device()];
  ++device.running;
  ++device.runs;
  lock.unlock();
  NamedValues results;
  const Clock::time_point start = Clock::now();
  error = failure_of([&] { results = run.replica->run(joined, outputs); });
  const Clock::time_point end = Clock::now();
  const bool has_thrown = error.has_value();
  std::vector<NamedValues> parts;
  if (!error && group.items.size() == 1) {
    parts.push_back(std::move(results));
  } else if (!error) {
    error = failure_of([&] { parts = split(results, group, run.inputs, options.padding.get()); });
  }
  const Clock::time_point cut = Clock::now();
  std::int64_t rows = 0;
  for (const std::int64_t more : group.rows) rows += more;
  if (options.on_run) {
    options.on_run({.requests = group.items.size(),
                    .rows = rows,
                    .input = run.entries[group.items.front()]->times.input,
                    .compute = end - start,
                    .output = cut - end,
                    .failed = error.has_value(),
                    .is_probe = run.entries[group.items.front()]->is_probe});
  }
  lock.lock();
  --device.running;
  if (!has_thrown) device.recent = device.recent.count() == 0 ? end - start : (3 * device.recent + (end - start)) / 4;
  run.has_thrown = has_thrown;
  run.failed = run.failed || error.has_value();
  for (const std::size_t item : group.items) {
    InferTimes& times = run.entries[item]->times;
    times.compute += end - start;
    times.output += cut - end;
    times.batch_requests = group.items.size();
    times.batch_rows = rows;
    if (!error) times.worker = run.replica->worker_run();
  }
  return parts;
}

BatchGroup Scheduler::State::group_of(const Run& run) const {
  BatchGroup group;
  std::int64_t cost = 0;
  for (std::size_t i = 0; i < run.entries.size(); ++i) {
    group.items.push_back(i);
    group.rows.push_back(run.entries[i]->rows);
    cost = std::max(cost, row_cost(run.entries[i]->row_shapes));
  }
  const std::int64_t rows = group.own_rows();
  if (group.items.size() > 1) group.filler_rows = filled_rows(rows, cost, options.batch) - rows;
  return group;
}

// The run's inputs as one; without them it has `unjoined`.
NamedValues Scheduler::State::join(Run& run, const BatchGroup& group) const {
  if (run.inputs.size() == 1) return std::move(run.inputs.front());
  NamedValues joined;
  run.unjoined = failure_of([&] { joined = concatenate(run.inputs, group, options.padding.get()); });
  return joined;
}

void Scheduler::State::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    Run run;
    if (!take(lock, run)) return;
    if (run.is_trial) {
      run_trial(lock, run);
      continue;
    }
    const BatchGroup group = group_of(run);
    lock.unlock();
    const Clock::time_point joining = Clock::now();
    NamedValues joined = join(run, group);
    lock.lock();
    if (run.reserved == nullptr) {
      // Without a device left, its requests are answered without a run.
      freed.wait(lock, [&] { return !free.empty() || run.awaited == 0; });
      --prepared;
      if (!free.empty()) run.reserved = take_free();
      if (planner_has_work()) arrived.notify_one();
    }
    for (const EntryPointer& entry : run.entries) entry->times.input = Clock::now() - joining;
    std::vector<Answer> answers;
    if (run.awaited != 0) {
      run.replica = run.reserved;
      execute(lock, run, group, joined, answers);
    } else {
      release(run);
    }
    lock.unlock();
    const Clock::time_point answering = Clock::now();
    deliver(answers);
    const Clock::duration answered = Clock::now() - answering;
    // What the callers were given may be the last that holds the results: freed here, without the lock.
    joined.clear();
    run.inputs.clear();
    lock.lock();
    learn(run, answered);
  }
}

// All of a prepared run on its replica, which is free again at the end.
void Scheduler::State::execute(Lock& lock, Run& run, const BatchGroup& group, const NamedValues& joined,
                               std::vector<Answer>& answers) {
  std::optional<Error> error = run.unjoined;
  std::vector<NamedValues> parts;
  if (!error) parts = compute(lock, run, group, joined, error);
  if (error && run.has_thrown && moves_elsewhere(run, joined, *error)) {
    release(run);
    refuse_where_all_are_out(answers);
    return;
  }
  const bool is_repeatable = run.replica == nullptr || !run.replica->has_lost_its_worker();
  const bool retry = run.entries.size() > 1 && parts.empty() && run.awaited != 0 && is_repeatable;
  if (retry) {
    // One of them may be the cause, or the model's batch is not what its signature says: each alone, once.
    ++counts.retried;
    if (!error && can_batch) {
      can_batch = false;
      log::warning("the model's results cannot be cut into requests: it is not batched any more");
    }
  }
  if (!retry) release(run);
  for (std::size_t i = 0; i < run.entries.size(); ++i) {
    const EntryPointer& entry = run.entries[i];
    if (retry) {
      if (!live.contains(entry->ticket)) continue;
      std::optional<Error> own;
      std::vector<NamedValues> result = compute(lock, run, {.items = {i}, .rows = {entry->rows}}, run.inputs[i], own);
      if (own && run.has_thrown) {
        note_failure(*run.replica, run_failure(*own, run.replica->has_lost_its_worker()), *own, false);
      }
      settle(entry, own, own ? NamedValues() : std::move(result.front()), answers);
      lock.unlock();
      deliver(answers);
      lock.lock();
    } else {
      // Without either nobody waits any more.
      settle(entry, error, parts.empty() ? NamedValues() : std::move(parts[i]), answers);
    }
  }
  if (retry) release(run);
  for (const EntryPointer& entry : run.entries) entry->run = nullptr;
  refuse_where_all_are_out(answers);
}

void Scheduler::State::release(Run& run) {
  if (run.overdue) --counts.overdue_runs;
  if (run.reserved != nullptr) give_back(run.reserved);
  run.replica = run.reserved = nullptr;
  pass_on();
}

}  // namespace gpux::runtime
