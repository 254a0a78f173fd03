#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "runtime/scheduling/replica_choice.h"
#include "runtime/scheduling/scheduler_state.h"

namespace gpux::runtime {
namespace {

using std::chrono::milliseconds;

milliseconds from_now(DeviceHealth::Time time, DeviceHealth::Time now) {
  return std::max(std::chrono::ceil<milliseconds>(time - now), milliseconds(0));
}

}  // namespace

void Scheduler::State::set_up_devices() {
  for (const auto& replica : replicas) {
    if (replica->device() >= devices.size()) devices.resize(replica->device() + 1);
    ++devices[replica->device()].replicas;
  }
  for (ScheduledDevice& device : devices) {
    device.health = DeviceHealth(options.trial_delays, options.trial.has_value());
  }
}

std::string Scheduler::State::name_of(std::size_t device) const {
  return device < options.device_names.size() ? options.device_names[device] : fmt::format("device {}", device);
}

Replica* Scheduler::State::take_free() {
  std::size_t index = free.size() - 1;
  if (has_several_devices()) {
    std::vector<FreeReplica> candidates;
    candidates.reserve(free.size());
    for (const Replica* replica : free) {
      const ScheduledDevice& device = devices[replica->device()];
      candidates.push_back({.running = device.running, .recent = device.recent});
    }
    index = choose_replica(candidates);
  }
  Replica* replica = free[index];
  free.erase(free.begin() + static_cast<std::ptrdiff_t>(index));
  ++devices[replica->device()].taken;
  return replica;
}

// Whether a run that is taken now would compute at once, and not copy its inputs while another one computes.
bool Scheduler::State::may_compute_now() const noexcept {
  if (options.computing_per_device == 0) return true;
  return std::ranges::any_of(
      free, [&](const Replica* replica) { return devices[replica->device()].taken < options.computing_per_device; });
}

void Scheduler::State::give_back(Replica* replica) {
  ScheduledDevice& device = devices[replica->device()];
  --device.taken;
  if (!has_several_devices() || device.health.takes_requests()) {
    free.push_back(replica);
    return;
  }
  device.parked.push_back(replica);
  arrived.notify_one();  // who waits to plan may have a trial to run now
}

// What became of the runs of a device, in its health and in what is free.
void Scheduler::State::refresh_devices() {
  const Clock::time_point now = Clock::now();
  const auto is = [](DeviceState state) {
    return [state](const ScheduledDevice& device) { return device.health.state() == state; };
  };
  // Each waits for the other: only a trial run can tell.
  if (std::ranges::none_of(devices, is(DeviceState::in_service)) &&
      std::ranges::none_of(devices, is(DeviceState::checking))) {
    for (ScheduledDevice& device : devices) {
      if (device.health.state() == DeviceState::suspected) device.health.check(now);
    }
  }
  for (std::size_t index = 0; index < devices.size(); ++index) {
    ScheduledDevice& device = devices[index];
    if (device.health.takes_requests()) {
      free.insert(free.end(), device.parked.begin(), device.parked.end());
      device.parked.clear();
    } else {
      const auto parked = std::stable_partition(free.begin(), free.end(),
                                                [&](const Replica* replica) { return replica->device() != index; });
      device.parked.insert(device.parked.end(), parked, free.end());
      free.erase(parked, free.end());
    }
    if (device.health.state() == DeviceState::out && !device.is_known_out) {
      log::warning("{} has failed and takes no requests until a trial run succeeds: {}", name_of(index),
                   device.health.reason());
    } else if (device.health.takes_requests() && device.is_known_out) {
      log::info("{} takes requests again", name_of(index));
    }
    device.is_known_out =
        device.health.state() == DeviceState::out || (device.is_known_out && !device.health.takes_requests());
  }
  arrived.notify_all();
  freed.notify_all();
}

bool Scheduler::State::are_all_out() const noexcept {
  return has_several_devices() && std::ranges::all_of(devices, [](const ScheduledDevice& device) {
           return device.health.state() == DeviceState::out;
         });
}

Error Scheduler::State::all_are_out() const {
  std::string reasons;
  std::optional<Clock::time_point> next;
  for (std::size_t index = 0; index < devices.size(); ++index) {
    const DeviceHealth& health = devices[index].health;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", name_of(index), health.reason());
    if (const auto due = health.trial_due()) next = next ? std::min(*next, *due) : *due;
  }
  const std::string trial = next ? fmt::format("the next trial run is in {} ms", from_now(*next, Clock::now()).count())
                                 : "a trial run goes on";
  return {ErrorCode::provider_unavailable,
          fmt::format("all devices of the model have failed ({}); {}", reasons, trial)};
}

// Answers all that no device can run.
void Scheduler::State::refuse_where_all_are_out(std::vector<Answer>& answers) {
  if (!are_all_out()) return;
  std::vector<EntryPointer> waiting;
  for (const auto& [ticket, entry] : live) {
    if (entry->run == nullptr || entry->run->replica == nullptr) waiting.push_back(entry);
  }
  if (waiting.empty()) return;
  const Error error = all_are_out();
  for (const EntryPointer& entry : waiting) give_up(entry, error, answers);
}

// After a run of the whole batch failed. True where its requests wait for another device.
bool Scheduler::State::moves_elsewhere(Run& run, const NamedValues& joined, const Error& error) {
  const RunFailure failure = run_failure(error, run.replica->has_lost_its_worker());
  const bool moves = is_of_the_device(failure) && may_move(run);
  note_failure(*run.replica, failure, error, moves);
  if (!moves) return false;
  requeue(run, joined, run.replica->device());
  return true;
}

// A request runs on one other device at most. One whose worker process ended may be the cause, and would end the next.
bool Scheduler::State::may_move(const Run& run) const {
  if (abandoned || run.awaited == 0 || run.replica->has_lost_its_worker()) return false;
  if (std::ranges::any_of(run.entries, [](const EntryPointer& entry) { return entry->is_moved; })) return false;
  for (std::size_t index = 0; index < devices.size(); ++index) {
    if (index != run.replica->device() && devices[index].health.state() != DeviceState::out) return true;
  }
  return false;
}

void Scheduler::State::note_failure(const Replica& replica, RunFailure failure, const Error& error, bool moves) {
  if (!is_of_the_device(failure)) return;
  ScheduledDevice& device = devices[replica.device()];
  if (!has_several_devices()) {
    ++device.failed_runs;
    device.last_failure = error.message();
    return;
  }
  device.health.failed(failure, error.message(), moves, Clock::now());
  // What waits must find the device of a moved request parked.
  refresh_devices();
}

// Ahead of all that waits, and beyond the queue's bound.
void Scheduler::State::requeue(Run& run, const NamedValues& joined, std::size_t device) {
  for (std::size_t i = run.entries.size(); i-- > 0;) {
    const EntryPointer& entry = run.entries[i];
    entry->run = nullptr;
    if (!live.contains(entry->ticket)) continue;
    entry->request.inputs = run.entries.size() == 1 ? joined : run.inputs[i];
    entry->is_moved = true;
    entry->failed_on = device;
    entry->suspicion = devices[device].health.suspicion();
    --counts.running;
    ++counts.moved;
    waiting_rows += entry->rows;
    queue.push_front(entry);
  }
  run.awaited = 0;
  run.entries.clear();
}

// The request of a suspicion has its answer.
void Scheduler::State::resolve_suspicion(const ScheduledEntry& entry, bool succeeded) {
  if (!entry.failed_on) return;
  devices[*entry.failed_on].health.elsewhere(succeeded, entry.suspicion, Clock::now());
  refresh_devices();
}

bool Scheduler::State::take_trial(Run& run, Clock::time_point now) {
  if (!has_several_devices() || abandoned) return false;
  bool is_back = false;
  for (ScheduledDevice& device : devices) is_back = device.health.end_delay(now) || is_back;
  if (is_back) refresh_devices();
  for (ScheduledDevice& device : devices) {
    const auto due = device.health.trial_due();
    if (!device.health.can_try() || !due || *due > now || device.parked.empty()) continue;
    device.health.begin_trial();
    run.reserved = device.parked.back();
    run.is_trial = true;
    device.parked.pop_back();
    ++device.taken;
    return true;
  }
  return false;
}

std::optional<Scheduler::State::Clock::time_point> Scheduler::State::next_trial() const noexcept {
  std::optional<Clock::time_point> next;
  if (!has_several_devices() || abandoned) return next;
  for (const ScheduledDevice& device : devices) {
    const auto due = device.health.trial_due();
    if (due && !device.parked.empty()) next = std::min(next.value_or(*due), *due);
  }
  return next;
}

void Scheduler::State::run_trial(Lock& lock, Run& run) {
  Replica* const replica = run.reserved;
  on_trial.push_back(replica);
  lock.unlock();
  std::optional<std::string> failure;
  try {
    const auto& trial = options.trial;
    if (trial) (void)replica->run_trial(trial->inputs, trial->outputs);
  } catch (const Error& error) {
    // Made-up values may be refused by the model; the device has answered all the same.
    if (error.code() != ErrorCode::invalid_input) failure = error.message();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  lock.lock();
  std::erase(on_trial, replica);
  devices[replica->device()].health.end_trial(failure, Clock::now());
  run.reserved = nullptr;
  give_back(replica);
  refresh_devices();
  std::vector<Answer> answers;
  refuse_where_all_are_out(answers);
  lock.unlock();
  deliver(answers);
  lock.lock();
}

std::vector<DeviceReport> Scheduler::State::device_reports() const {
  const Clock::time_point now = Clock::now();
  std::vector<DeviceReport> reports;
  for (const ScheduledDevice& device : devices) {
    const DeviceHealth& health = device.health;
    DeviceReport report{.state = health.state(),
                        .failures = health.failures() + device.failed_runs,
                        .reason = has_several_devices() ? health.reason() : device.last_failure,
                        .next_trial = {},
                        .replicas = device.replicas,
                        .running = device.running,
                        .runs = device.runs};
    if (const auto due = health.trial_due()) report.next_trial = from_now(*due, now);
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace gpux::runtime
