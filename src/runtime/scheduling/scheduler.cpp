#include <algorithm>

#include <fmt/format.h>

#include "base/caught_error.h"
#include "base/log.h"
#include "base/start_thread.h"
#include "runtime/scheduling/scheduler_state.h"

namespace gpux::runtime {
namespace {

// Whether the requests of a run may differ in this size of the input.
bool may_differ(const PaddedInput* padded, std::size_t dimension) {
  return padded != nullptr &&
         std::find(padded->dimensions.begin(), padded->dimensions.end(), dimension) != padded->dimensions.end();
}

// Names, types and all sizes in which requests must agree; and the outputs that are asked for.
std::string shape_key(const InferRequest& request, const Padding* padding) {
  std::string key;
  for (const auto& [name, value] : request.inputs) {
    const Tensor& tensor = *value.tensor();
    key += name;
    key += '\0';
    key += static_cast<char>(tensor.type());
    const PaddedInput* padded = padding == nullptr ? nullptr : padded_input(*padding, name);
    for (std::size_t i = 1; i < tensor.shape().size(); ++i) {
      if (may_differ(padded, i)) continue;
      key.append(reinterpret_cast<const char*>(&tensor.shape()[i]), sizeof(std::int64_t));
    }
    key += '\0';
  }
  for (const std::size_t output : request.outputs) {
    key.append(reinterpret_cast<const char*>(&output), sizeof output);
  }
  return key;
}

std::vector<Shape> row_shapes(const NamedValues& inputs) {
  std::vector<Shape> shapes;
  for (const auto& [name, value] : inputs) {
    const Shape& shape = value.tensor()->shape();
    shapes.emplace_back(shape.begin() + 1, shape.end());
  }
  return shapes;
}

}  // namespace

void Scheduler::State::deliver(std::vector<Answer>& answers) {
  for (Answer& answer : answers) {
    try {
      answer.done(std::move(answer.answer));
    } catch (...) {  // its request alone goes without an answer
      log::error("an answer could not be given: {}", caught_error().message());
    }
  }
  answers.clear();
}

// Takes the entry off everything that knows it; the answer is given once the lock is gone.
void Scheduler::State::settle(const EntryPointer& entry, std::optional<Error> error, NamedValues outputs,
                              std::vector<Answer>& answers) {
  if (live.erase(entry->ticket) == 0) return;
  if (const auto deadline = entry->request.deadline) deadlines.erase({*deadline, entry->ticket});
  if (entry->run != nullptr) {
    --entry->run->awaited;
    --counts.running;
  }
  resolve_suspicion(*entry, !error);
  answers.push_back({std::move(entry->done), {std::move(error), std::move(outputs), entry->times}});
  if (live.empty()) all_quiet.notify_all();
}

// Ends the wait for an entry from outside of its run.
void Scheduler::State::give_up(const EntryPointer& entry, const Error& error, std::vector<Answer>& answers) {
  if (!live.contains(entry->ticket)) return;
  Run* run = entry->run;
  if (run == nullptr) {
    queue.erase(std::find(queue.begin(), queue.end(), entry));
    waiting_rows -= entry->rows;
  }
  settle(entry, error, {}, answers);
  if (run == nullptr || run->awaited != 0) return;
  if (run->replica != nullptr) {
    run->overdue = true;
    ++counts.overdue_runs;
    run->replica->stop();
  } else {
    freed.notify_all();  // it waits for a replica, and needs none any more
  }
}

Scheduler::Ticket Scheduler::State::submit(InferRequest&& request, Completion&& done, bool first, Here here) {
  const auto entry = std::make_shared<ScheduledEntry>();
  entry->request = std::move(request);
  entry->done = std::move(done);
  entry->is_probe = first;
  entry->arrived = Clock::now();
  if (!lanes.empty()) entry->size_key = size_key(entry->request.inputs, entry->request.outputs);
  if (can_batch && !first) {
    if (const auto rows = shared_rows(entry->request.inputs)) {
      const Padding* padding = options.padding.get();
      entry->rows = *rows;
      if (padding == nullptr || can_be_padded(entry->request.inputs, *padding)) {
        entry->shape_key = shape_key(entry->request, padding);
        if (padding != nullptr || options.batch.max_cost != 0) entry->row_shapes = row_shapes(entry->request.inputs);
      }
    }
  }
  Lock lock(mutex);
  if (closed) throw Error(ErrorCode::interrupted, "the model accepts no more requests: it is being unloaded");
  if (are_all_out()) throw all_are_out();
  if (!first && !entry->request.is_admitted && queue.size() >= options.max_queue) {
    ++counts.rejected;
    throw Error(ErrorCode::resource_exhausted, fmt::format("the queue is full: {} requests are waiting", queue.size()));
  }
  const auto deadline = entry->request.deadline;
  if (deadline && *deadline <= entry->arrived) {
    ++counts.expired;
    throw Error(ErrorCode::deadline_exceeded, "the deadline had passed when the request arrived");
  }
  const Ticket ticket = entry->ticket = ++last_ticket;
  live.emplace(ticket, entry);
  if (deadline) {
    deadlines.emplace(*deadline, ticket);
    if (*deadline < watching_until) watch.notify_one();
  }
  if (here == Here::allowed && may_run_here(*entry)) {
    run_here(lock, entry);
    return 0;
  }
  auto place = queue.begin();
  if (!first) {
    place = queue.end();
    while (place != queue.begin() && (*std::prev(place))->request.priority > entry->request.priority) --place;
  }
  queue.insert(place, entry);
  waiting_rows += entry->rows;
  const bool wake = planner_has_work();
  // Woken with the lock held, it would only come to wait for that.
  lock.unlock();
  if (wake) arrived.notify_one();
  return ticket;
}

void Scheduler::State::watch_deadlines() {
  std::unique_lock lock(mutex);
  while (!ended) {
    if (deadlines.empty()) {
      watching_until = Clock::time_point::max();
      watch.wait(lock);
      continue;
    }
    const auto [when, ticket] = *deadlines.begin();
    if (when > Clock::now()) {
      watching_until = when;
      watch.wait_until(lock, when);
      continue;
    }
    watching_until = Clock::time_point::min();
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

Scheduler::Scheduler(std::vector<std::unique_ptr<Replica>> replicas, const SchedulerOptions& options,
                     std::vector<std::unique_ptr<Replica>> lanes)
    : state_(std::make_unique<State>()) {
  state_->options = options;
  state_->can_batch = options.can_batch;
  state_->replicas = std::move(replicas);
  state_->lanes = std::move(lanes);
  for (const auto& lane : state_->lanes) state_->free_lanes.push_back(lane.get());
  for (const auto& replica : state_->replicas) state_->free.push_back(replica.get());
  state_->set_up_devices();
  try {
    for (std::size_t i = 0; i < state_->replicas.size() + 1; ++i) {
      state_->workers.push_back(start_thread([state = state_.get()] { state->work(); }));
    }
    state_->watcher = start_thread([state = state_.get()] { state->watch_deadlines(); });
  } catch (const Error&) {
    state_->end_threads();
    throw;
  }
}

Scheduler::~Scheduler() {
  abandon();
  {
    State::Lock lock(state_->mutex);
    state_->all_quiet.wait(lock, [&] { return state_->free_lanes.size() == state_->lanes.size(); });
  }
  state_->end_threads();
}

void Scheduler::State::end_threads() {
  {
    const std::lock_guard lock(mutex);
    ended = true;
    arrived.notify_all();
    watch.notify_all();
  }
  for (std::thread& worker : workers) worker.join();
  if (watcher.joinable()) watcher.join();
}

void Scheduler::abandon() {
  std::vector<State::Answer> answers;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = state_->abandoned = true;
    std::vector<State::EntryPointer> all;
    for (const auto& [ticket, entry] : state_->live) all.push_back(entry);
    for (const State::EntryPointer& entry : all) {
      state_->give_up(entry, Error(ErrorCode::interrupted, "the model was unloaded"), answers);
    }
    for (Replica* replica : state_->on_trial) replica->stop();
  }
  State::deliver(answers);
}

Scheduler::Ticket Scheduler::submit(InferRequest request, Completion done, Here here) {
  return state_->submit(std::move(request), std::move(done), false, here);
}

Scheduler::Ticket Scheduler::submit_first(InferRequest request, Completion done) {
  return state_->submit(std::move(request), std::move(done), true, Here::no);
}

void Scheduler::cancel(Ticket ticket) {
  std::vector<State::Answer> answers;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->live.find(ticket);
    if (found == state_->live.end()) return;
    ++state_->counts.cancelled;
    const State::EntryPointer entry = found->second;
    state_->give_up(entry, Error(ErrorCode::interrupted, "nobody waits for the answer any more"), answers);
  }
  State::deliver(answers);
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

std::vector<DeviceReport> Scheduler::devices() const {
  const std::lock_guard lock(state_->mutex);
  return state_->device_reports();
}

}  // namespace gpux::runtime
