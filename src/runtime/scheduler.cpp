#include "runtime/scheduler.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

#include "base/log.h"
#include "runtime/batch.h"

namespace gpux::runtime {
namespace {

using Clock = std::chrono::steady_clock;

struct Run;

struct Entry {
  Scheduler::Ticket ticket = 0;
  InferRequest request;
  Completion done;
  std::string shape_key;  // empty: shares no run
  std::int64_t rows = 1;
  Clock::time_point arrived;
  InferTimes times;
  Run* run = nullptr;  // while it is in one
};

using EntryPointer = std::shared_ptr<Entry>;

// Requests that were taken together. Changed under the scheduler's lock, but for `inputs`.
struct Run {
  std::vector<EntryPointer> entries;
  std::vector<NamedValues> inputs;  // of each entry
  std::size_t awaited = 0;          // entries that are not answered yet
  Replica* reserved = nullptr;      // will compute it; null: none was free when it was planned
  Replica* replica = nullptr;       // while it computes
  bool overdue = false;             // it computes, and nobody waits for it
};

struct Answer {
  Completion done;
  InferAnswer answer;
};

void deliver(std::vector<Answer>& answers) {
  for (Answer& answer : answers) answer.done(std::move(answer.answer));
  answers.clear();
}

// Names, types and all sizes but the first; and the outputs that are asked for.
std::string shape_key(const InferRequest& request) {
  std::string key;
  for (const auto& [name, value] : request.inputs) {
    const Tensor& tensor = *value.tensor();
    key += name;
    key += '\0';
    key += static_cast<char>(tensor.type());
    for (std::size_t i = 1; i < tensor.shape().size(); ++i) {
      key.append(reinterpret_cast<const char*>(&tensor.shape()[i]), sizeof(std::int64_t));
    }
    key += '\0';
  }
  for (const std::size_t output : request.outputs) {
    key.append(reinterpret_cast<const char*>(&output), sizeof output);
  }
  return key;
}

}  // namespace

struct Scheduler::State {
  SchedulerOptions options;
  std::atomic<bool> can_batch = false;
  std::vector<std::unique_ptr<Replica>> replicas;

  mutable std::mutex mutex;
  std::condition_variable arrived;    // a request, or a replica for those who plan
  std::condition_variable freed;      // a replica for who holds a prepared run
  std::condition_variable all_quiet;  // an answer was given
  std::condition_variable watch;      // an earlier deadline
  bool closed = false, ended = false;
  std::size_t planning_idle = 0;
  std::size_t prepared = 0;  // runs without a replica yet: 0 or 1

  std::deque<EntryPointer> queue;  // in the order of service
  std::vector<Replica*> free;
  std::unordered_map<Ticket, EntryPointer> live;  // not answered yet
  std::set<std::pair<Clock::time_point, Ticket>> deadlines;
  Ticket last_ticket = 0;
  SchedulerCounts counts;

  std::vector<std::thread> workers;
  std::thread watcher;

  // Takes the entry off everything that knows it; the answer is given once the lock is gone.
  void settle(const EntryPointer& entry, std::optional<Error> error, NamedValues outputs,
              std::vector<Answer>& answers) {
    if (live.erase(entry->ticket) == 0) return;
    if (const auto deadline = entry->request.deadline) deadlines.erase({*deadline, entry->ticket});
    if (entry->run != nullptr) {
      --entry->run->awaited;
      --counts.running;
    }
    answers.push_back({std::move(entry->done), {std::move(error), std::move(outputs), entry->times}});
    if (live.empty()) all_quiet.notify_all();
  }

  // Ends the wait for an entry from outside of its run.
  void give_up(const EntryPointer& entry, const Error& error, std::vector<Answer>& answers) {
    Run* run = entry->run;
    if (run == nullptr) queue.erase(std::find(queue.begin(), queue.end(), entry));
    settle(entry, error, {}, answers);
    if (run != nullptr && run->awaited == 0 && run->replica != nullptr) {
      run->overdue = true;
      ++counts.overdue_runs;
      run->replica->stop();
    }
  }

  Ticket submit(InferRequest&& request, Completion&& done, bool first) {
    auto entry = std::make_shared<Entry>();
    entry->request = std::move(request);
    entry->done = std::move(done);
    entry->arrived = Clock::now();
    if (can_batch && !first) {
      if (const auto rows = shared_rows(entry->request.inputs)) {
        entry->rows = *rows;
        entry->shape_key = shape_key(entry->request);
      }
    }
    const std::lock_guard lock(mutex);
    if (closed) throw Error(ErrorCode::interrupted, "the model takes no more requests: it is being unloaded");
    if (!first && queue.size() >= options.max_queue) {
      ++counts.rejected;
      throw Error(ErrorCode::resource_exhausted,
                  fmt::format("the queue is full: {} requests are waiting", queue.size()));
    }
    const auto deadline = entry->request.deadline;
    if (deadline && *deadline <= entry->arrived) {
      ++counts.expired;
      throw Error(ErrorCode::deadline_exceeded, "the deadline had passed when the request arrived");
    }
    entry->ticket = ++last_ticket;
    live.emplace(entry->ticket, entry);
    if (deadline) {
      const auto [place, added] = deadlines.emplace(*deadline, entry->ticket);
      if (place == deadlines.begin()) watch.notify_one();
    }
    auto place = queue.begin();
    if (!first) {
      place = queue.end();
      while (place != queue.begin() && (*std::prev(place))->request.priority > entry->request.priority) --place;
    }
    queue.insert(place, entry);
    if (planning_idle != 0) arrived.notify_one();
    return entry->ticket;
  }

  std::vector<WaitingRequest> waiting_requests() const {
    std::vector<WaitingRequest> waiting;
    const std::size_t count = std::min(queue.size(), options.batch.look_ahead + 1);
    waiting.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      waiting.push_back({queue[i]->shape_key, queue[i]->rows, queue[i]->arrived});
    }
    return waiting;
  }

  Replica* take_free() {
    Replica* replica = free.back();
    free.pop_back();
    return replica;
  }

  // Waits for something to run; false at the end.
  bool take(std::unique_lock<std::mutex>& lock, Run& run) {
    for (;;) {
      // The prepared run comes first, and there is one at most.
      const bool has_replica = free.size() > prepared;
      const Clock::time_point now = Clock::now();
      BatchPlan plan;
      if (has_replica || prepared == 0) plan = plan_batch(waiting_requests(), options.batch, has_replica, now);
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
      if (plan.wait_until) {
        arrived.wait_until(lock, *plan.wait_until);
      } else {
        arrived.wait(lock);
      }
      --planning_idle;
    }
  }

  // Lets another thread plan while this one is busy with results.
  void pass_on() {
    if (prepared != 0) {
      freed.notify_one();
    } else if (!queue.empty() && planning_idle != 0) {
      arrived.notify_one();
    }
  }

  // Runs the entries [first, first + count) of the run on its replica; their results, or the error of all of them.
  std::vector<NamedValues> compute(std::unique_lock<std::mutex>& lock, Run& run, const BatchGroup& group,
                                   const NamedValues& joined, std::optional<Error>& error) {
    const std::vector<std::size_t> outputs = run.entries[group.items.front()]->request.outputs;
    ++counts.runs;
    lock.unlock();
    NamedValues results;
    const Clock::time_point start = Clock::now();
    try {
      results = run.replica->run(joined, outputs);
    } catch (const Error& failure) {
      error = failure;
    } catch (const std::exception& failure) {
      error = Error(ErrorCode::internal, failure.what());
    }
    const Clock::time_point end = Clock::now();
    std::vector<NamedValues> parts;
    if (!error) parts = split(results, group);
    const Clock::time_point cut = Clock::now();
    std::int64_t rows = 0;
    for (const std::int64_t more : group.rows) rows += more;
    if (options.on_run) {
      options.on_run({.requests = group.items.size(),
                      .rows = rows,
                      .input = run.entries[group.items.front()]->times.input,
                      .compute = end - start,
                      .output = cut - end,
                      .failed = error.has_value()});
    }
    lock.lock();
    for (const std::size_t item : group.items) {
      InferTimes& times = run.entries[item]->times;
      times.compute += end - start;
      times.output += cut - end;
      times.batch_requests = group.items.size();
      times.batch_rows = rows;
    }
    return parts;
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      Run run;
      if (!take(lock, run)) return;
      BatchGroup group;
      for (std::size_t i = 0; i < run.entries.size(); ++i) {
        group.items.push_back(i);
        group.rows.push_back(run.entries[i]->rows);
      }
      lock.unlock();
      const Clock::time_point joining = Clock::now();
      NamedValues joined = concatenate(run.inputs, group);
      lock.lock();
      if (run.reserved == nullptr) {
        freed.wait(lock, [&] { return !free.empty(); });
        --prepared;
        run.reserved = take_free();
        if (!queue.empty() && planning_idle != 0) arrived.notify_one();
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
      deliver(answers);
      // What the callers were given may be the last that holds the results: freed here, without the lock.
      joined.clear();
      lock.lock();
    }
  }

  // All of a prepared run on its replica, which is free again at the end.
  void execute(std::unique_lock<std::mutex>& lock, Run& run, const BatchGroup& group, const NamedValues& joined,
               std::vector<Answer>& answers) {
    std::optional<Error> error;
    std::vector<NamedValues> parts = compute(lock, run, group, joined, error);
    const bool retry = run.entries.size() > 1 && parts.empty() && run.awaited != 0;
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
        std::vector<NamedValues> result = compute(lock, run, {{i}, {entry->rows}}, run.inputs[i], own);
        settle(entry, own, own ? NamedValues() : std::move(result.front()), answers);
        lock.unlock();
        deliver(answers);
        lock.lock();
      } else {
        settle(entry, error, error ? NamedValues() : std::move(parts[i]), answers);
      }
    }
    if (retry) release(run);
    for (const EntryPointer& entry : run.entries) entry->run = nullptr;
  }

  void release(Run& run) {
    if (run.overdue) --counts.overdue_runs;
    free.push_back(run.reserved);
    run.replica = run.reserved = nullptr;
    pass_on();
  }

  void watch_deadlines() {
    std::unique_lock lock(mutex);
    while (!ended) {
      if (deadlines.empty()) {
        watch.wait(lock);
        continue;
      }
      const auto [when, ticket] = *deadlines.begin();
      if (when > Clock::now()) {
        watch.wait_until(lock, when);
        continue;
      }
      std::vector<Answer> answers;
      const EntryPointer entry = live.at(ticket);
      ++counts.expired;
      give_up(entry,
              Error(ErrorCode::deadline_exceeded, entry->run == nullptr ? "the deadline passed in the queue"
                                                                        : "the deadline passed while the model ran"),
              answers);
      lock.unlock();
      deliver(answers);
      lock.lock();
    }
  }
};

Scheduler::Scheduler(std::vector<std::unique_ptr<Replica>> replicas, const SchedulerOptions& options)
    : state_(std::make_unique<State>()) {
  state_->options = options;
  state_->can_batch = options.can_batch;
  state_->replicas = std::move(replicas);
  for (const auto& replica : state_->replicas) state_->free.push_back(replica.get());
  for (std::size_t i = 0; i < state_->replicas.size() + 1; ++i) {
    state_->workers.emplace_back([state = state_.get()] { state->work(); });
  }
  state_->watcher = std::thread([state = state_.get()] { state->watch_deadlines(); });
}

Scheduler::~Scheduler() {
  abandon();
  {
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
    state_->arrived.notify_all();
    state_->watch.notify_all();
  }
  for (std::thread& worker : state_->workers) worker.join();
  state_->watcher.join();
}

void Scheduler::abandon() {
  std::vector<Answer> answers;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
    std::vector<EntryPointer> all;
    for (const auto& [ticket, entry] : state_->live) all.push_back(entry);
    for (const EntryPointer& entry : all) {
      state_->give_up(entry, Error(ErrorCode::interrupted, "the model was unloaded"), answers);
    }
  }
  deliver(answers);
}

Scheduler::Ticket Scheduler::submit(InferRequest request, Completion done) {
  return state_->submit(std::move(request), std::move(done), false);
}

Scheduler::Ticket Scheduler::submit_first(InferRequest request, Completion done) {
  return state_->submit(std::move(request), std::move(done), true);
}

void Scheduler::cancel(Ticket ticket) {
  std::vector<Answer> answers;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->live.find(ticket);
    if (found == state_->live.end()) return;
    ++state_->counts.cancelled;
    const EntryPointer entry = found->second;
    state_->give_up(entry, Error(ErrorCode::interrupted, "nobody waits for the answer any more"), answers);
  }
  deliver(answers);
}

bool Scheduler::close(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(state_->mutex);
  state_->closed = true;
  return state_->all_quiet.wait_until(lock, deadline, [&] { return state_->live.empty(); });
}

SchedulerCounts Scheduler::counts() const {
  const std::lock_guard lock(state_->mutex);
  SchedulerCounts counts = state_->counts;
  counts.waiting = state_->queue.size();
  return counts;
}

}  // namespace gpux::runtime
