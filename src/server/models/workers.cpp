#include "server/models/workers.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <span>
#include <thread>

#include <fmt/format.h>

#include "base/machine.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "base/start_thread.h"
#include "gpux/error.h"
#include "ort/compute_turn.h"
#include "provider/table.h"
#include "runtime/scheduling/runs_in_flight.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

// Runs per second of `threads` threads that use the session at once. A model that refuses made-up values gives 0.
double measured_rate(const Runtime& session, unsigned threads) {
  constexpr auto span = std::chrono::milliseconds(200);
  const NamedValues inputs = synthetic_inputs(session.info().signature);
  std::atomic<std::uint64_t> runs = 0;
  std::atomic<bool> failed = false;
  const auto one = [&] {
    try {
      (void)session.infer(inputs);
      ++runs;
    } catch (const std::exception&) {
      failed = true;
    }
  };
  one();
  if (failed) return 0;
  runs = 0;
  const Clock::time_point start = Clock::now();
  std::vector<std::jthread> others;  // joined also where no more can be started
  others.reserve(threads);
  for (unsigned i = 0; i < threads; ++i) {
    others.push_back(start_thread<std::jthread>([&] {
      do one();
      while (!failed && Clock::now() - start < span);
    }));
  }
  for (std::jthread& other : others) other.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return failed ? 0 : static_cast<double>(runs) / seconds;
}

// A provider with threads or a device of its own gains nothing from a thread for each processor.
bool works_on_its_callers(const Runtime& session) {
  return std::ranges::all_of(session.verdict().active, [](const std::string& id) {
    const provider::ProviderRow* row = provider::find_row(id);
    return row != nullptr && row->works_on_callers_threads;
  });
}

using Load = std::function<std::shared_ptr<const Runtime>(const LoadOptions&)>;

Workers measured_workers(unsigned most, const LoadOptions& options, const Load& load) {
  Workers workers;
  workers.sessions.push_back(load(options));
  unsigned processors = usable_processors(Machine::this_one());
  if (most != 0) processors = std::min(processors, most);
  if (processors < 2) {
    workers.choice = "1 worker: one usable processor";
    return workers;
  }
  if (!works_on_its_callers(*workers.sessions.front())) {
    workers.choice = "1 worker: the model does not run on its callers' threads alone";
    return workers;
  }
  LoadOptions single = options;
  single.intra_threads = single.inter_threads = 1;
  const auto replicated = load(single);
  const double together = measured_rate(*workers.sessions.front(), 1);
  const double apart = measured_rate(*replicated, processors);
  if (should_replicate(together, apart)) {
    workers.sessions.front() = replicated;
    workers.replicas = processors;
    workers.choice = fmt::format("{} workers of one thread: {:.0f} runs/s, {:.0f} with one of all threads", processors,
                                 apart, together);
  } else if (together == 0) {
    workers.choice = "1 worker: the model refuses synthetic inputs, so nothing could be measured";
  } else {
    workers.choice = fmt::format("1 worker of all threads: {:.0f} runs/s, {:.0f} with {} of one thread", together,
                                 apart, processors);
  }
  return workers;
}

// A provider's own option, such as device_id, takes precedence and would put every session on the same device.
void require_device(const Verdict& verdict, unsigned index) {
  const auto active = std::ranges::find(verdict.tried, ProviderAttempt::Outcome::active, &ProviderAttempt::outcome);
  if (active == verdict.tried.end()) return;
  const std::optional<Device>& device = active->device;
  if (!device || device->index == index) return;
  throw Error(ErrorCode::usage,
              fmt::format("workers devices: {} has a session for device {}, and its options put it on device {}; leave "
                          "its device out of the options",
                          active->id, index, device->index));
}

// On the first device that has room for it: how much is free of which is known only once one is loaded.
std::shared_ptr<const Runtime> load_first(const LoadOptions& options, const Load& load) {
  try {
    return load(options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted || options.device) throw;
    constexpr unsigned most_devices = 64;
    for (unsigned device = 1; device < most_devices; ++device) {
      LoadOptions other = options;
      other.device = device;
      try {
        return load(other);
      } catch (const Error& next) {
        if (next.code() != ErrorCode::resource_exhausted) break;  // there is no such device
      }
    }
    throw;
  }
}

const ProviderAttempt* active_attempt(const Verdict& verdict) {
  const auto active = std::ranges::find(verdict.tried, ProviderAttempt::Outcome::active, &ProviderAttempt::outcome);
  return active == verdict.tried.end() ? nullptr : &*active;
}

Workers workers_of_devices(const WorkerRequest& request, const LoadOptions& options, const Load& load) {
  // Before a session takes some.
  const auto memory = provider::read_device_memory(Machine::this_one());
  Workers workers;
  workers.sessions.push_back(load_first(options, load));
  const Runtime& loaded = *workers.sessions.front();
  const ProviderAttempt* active = active_attempt(loaded.verdict());
  std::vector<Device> devices;
  std::optional<unsigned> first = options.device;
  if (active != nullptr) devices = active->devices;
  if (!first && active != nullptr && active->device) first = active->device->index;
  const std::vector<provider::DeviceRoom> rooms = rooms_of(devices, first, request.most, memory);
  const std::uint64_t size = provider::expected_session_bytes(loaded.info().total_bytes());
  const provider::SessionPlacement placement = provider::place_sessions(
      rooms, size, request.count == 0 ? std::nullopt : std::optional(request.count), rooms.front().index);
  if (placement.devices.size() > 1) require_device(loaded.verdict(), placement.devices.front());
  for (const unsigned index : std::span(placement.devices).subspan(1)) {
    LoadOptions other = options;
    other.device = index;
    workers.sessions.push_back(load(other));
    require_device(workers.sessions.back()->verdict(), index);
  }
  workers.choice = request.count == 0
                       ? fmt::format("{} workers, one a device", workers.sessions.size())
                       : fmt::format("{} workers on {} devices", workers.sessions.size(), workers.devices().size());
  for (const unsigned index : placement.left_out) {
    workers.choice += fmt::format("; none on device {}: a session is expected to take {}, and less is free", index,
                                  format_bytes(size));
  }
  return workers;
}

Workers workers_of_cores(unsigned count, bool threads_are_set, const LoadOptions& options, const Load& load) {
  if (threads_are_set) {
    throw Error(
        ErrorCode::usage,
        "workers cores:N shares the processors out, and the number of threads is set, too; leave one of them out");
  }
  Workers workers;
  workers.shares = share_processors(read_processors(Machine::this_one()), count);
  for (const ProcessorShare& share : workers.shares) {
    LoadOptions own = options;
    own.intra_threads = share.threads;
    if (const std::string affinities = intra_op_affinities(share); !affinities.empty()) {
      own.session_config.emplace_back("session.intra_op_thread_affinities", affinities);
    }
    // What is allocated meanwhile lies in the memory of their node.
    const BoundThread bound(share.processors);
    workers.sessions.push_back(load(own));
    const Runtime& session = *workers.sessions.back();
    if (works_on_its_callers(session)) continue;
    throw Error(ErrorCode::usage,
                fmt::format("workers cores:N is about providers that compute on processors, and the model runs on {}; "
                            "accepted: a number, devices, devices:N",
                            join(session.verdict().active)));
  }
  const bool is_bound = !workers.shares.front().processors.empty();
  workers.choice = fmt::format("{} workers of {} threads, {}", count, workers.shares.front().threads,
                               is_bound ? "each bound to cores of its own" : "not bound to processors");
  return workers;
}

}  // namespace

std::vector<std::shared_ptr<const Runtime>> Workers::devices() const {
  std::vector<std::shared_ptr<const Runtime>> first;
  for (const auto& session : sessions) {
    const Device* device = device_of(session->verdict());
    const bool is_known = device != nullptr && std::ranges::any_of(first, [&](const auto& other) {
                            const Device* known = device_of(other->verdict());
                            return known != nullptr && known->index == device->index;
                          });
    if (!is_known) first.push_back(session);
  }
  return first;
}

std::size_t Workers::device_number(std::size_t session) const {
  const auto& wanted = sessions.at(session);
  const Device* own = device_of(wanted->verdict());
  const auto all = devices();
  const auto found = std::ranges::find_if(all, [&](const auto& first) {
    const Device* device = device_of(first->verdict());
    return first == wanted || (own != nullptr && device != nullptr && device->index == own->index);
  });
  return static_cast<std::size_t>(found - all.begin());
}

std::vector<std::unique_ptr<runtime::Replica>> Workers::make_replicas() const {
  std::vector<std::unique_ptr<runtime::Replica>> made;
  const bool has_several_devices = devices().size() > 1;
  for (std::size_t index = 0; index < sessions.size(); ++index) {
    const auto turn = in_flight > replicas ? std::make_shared<ort::ComputeTurn>(replicas) : nullptr;
    for (unsigned i = 0; i < std::max(replicas, in_flight); ++i) {
      made.push_back(std::make_unique<runtime::SessionReplica>(
          *sessions[index], device_number(index), shares.empty() ? std::vector<unsigned>() : shares[index].processors,
          !has_several_devices, turn));
    }
  }
  return made;
}

std::size_t Workers::computing_per_device() const {
  if (in_flight <= replicas) return 0;
  const std::size_t count = devices().size();
  return replicas * ((sessions.size() + count - 1) / count);
}

std::vector<std::string> Workers::device_names() const {
  std::vector<std::string> names;
  const auto all = devices();
  for (std::size_t index = 0; index < all.size(); ++index) {
    const Verdict& verdict = all[index]->verdict();
    const std::string provider = verdict.active.empty() ? "" : verdict.active.front() + " ";
    const Device* device = device_of(verdict);
    if (device == nullptr) {
      names.push_back(fmt::format("{}session {}", provider, index));
    } else {
      names.push_back(fmt::format("{}device {}{}", provider, device->index,
                                  device->name.empty() ? "" : fmt::format(" ({})", device->name)));
    }
  }
  return names;
}

const Device* device_of(const Verdict& verdict) noexcept {
  for (const ProviderAttempt& attempt : verdict.tried) {
    if (attempt.outcome == ProviderAttempt::Outcome::active && attempt.device) return &*attempt.device;
  }
  return nullptr;
}

namespace {

Workers load_sessions(const WorkerRequest& request, const LoadOptions& options, bool threads_are_set,
                      const Load& load) {
  switch (request.kind) {
    case WorkerRequest::Kind::automatic:
      return measured_workers(request.most, options, load);
    case WorkerRequest::Kind::devices:
      return workers_of_devices(request, options, load);
    case WorkerRequest::Kind::cores:
      return workers_of_cores(request.count, threads_are_set, options, load);
    case WorkerRequest::Kind::count:
      break;
  }
  Workers workers;
  LoadOptions wanted = options;
  if (request.count > 1 && !threads_are_set) wanted.intra_threads = 1;
  workers.sessions.push_back(load(wanted));
  workers.replicas = request.count;
  return workers;
}

}  // namespace

Workers load_workers(const WorkerRequest& request, const LoadOptions& options, bool threads_are_set,
                     const std::function<Runtime(const LoadOptions&)>& load) {
  Workers workers = load_sessions(request, options, threads_are_set,
                                  [&](const LoadOptions& with) { return std::make_shared<const Runtime>(load(with)); });
  const bool can_overlap =
      std::ranges::all_of(workers.sessions, [](const auto& session) { return session->uses_pinned_memory(); });
  const runtime::RunsInFlight decided = runtime::decide_runs_in_flight(
      {.can_overlap = can_overlap, .computing = workers.replicas, .requested = request.in_flight});
  workers.in_flight = decided.count;
  if (!decided.reason.empty()) workers.choice += (workers.choice.empty() ? "" : "; ") + decided.reason;
  return workers;
}

Workers load_owners(const WorkerRequest& request, const LoadOptions& options, bool threads_are_set, const Load& load) {
  const bool is_one = request.kind == WorkerRequest::Kind::count && request.count == 1;
  if (!is_one && request.kind != WorkerRequest::Kind::devices && request.kind != WorkerRequest::Kind::cores) {
    throw Error(ErrorCode::usage, fmt::format("workers '{}': accepted for a model that generates text are 1, devices, "
                                              "devices:N and cores:N, each with a session, and max_sequences for texts "
                                              "at the same time",
                                              to_string(request)));
  }
  return load_sessions(request, options, threads_are_set, load);
}

std::vector<provider::DeviceRoom> rooms_of(std::span<const Device> devices, std::optional<unsigned> first,
                                           unsigned most, const std::map<std::string, provider::DeviceMemory>& memory) {
  std::vector<provider::DeviceRoom> rooms{{.index = first.value_or(devices.empty() ? 0 : devices.front().index)}};
  for (const Device& device : devices) {
    if (device.index == rooms.front().index) continue;
    if (most != 0 && rooms.size() == most) break;
    rooms.push_back({.index = device.index});
  }
  for (provider::DeviceRoom& room : rooms) {
    const auto device = std::ranges::find(devices, room.index, &Device::index);
    if (device == devices.end()) continue;
    const auto known = memory.find(device->address);
    if (known != memory.end()) room.free_bytes = known->second.free;
  }
  return rooms;
}

bool should_replicate(double shared_runs_per_s, double replicated_runs_per_s) noexcept {
  return replicated_runs_per_s > 1.1 * shared_runs_per_s;
}

}  // namespace gpux::server
