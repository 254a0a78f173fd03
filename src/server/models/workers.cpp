#include "server/models/workers.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <span>
#include <thread>

#include <fmt/format.h>

#include "base/machine.h"
#include "gpux/error.h"
#include "provider/table.h"
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
    } catch (const Error&) {
      failed = true;
    }
  };
  one();
  if (failed) return 0;
  runs = 0;
  const Clock::time_point start = Clock::now();
  std::vector<std::thread> others;
  others.reserve(threads);
  for (unsigned i = 0; i < threads; ++i) {
    others.emplace_back([&] {
      do one();
      while (!failed && Clock::now() - start < span);
    });
  }
  for (std::thread& other : others) other.join();
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

std::shared_ptr<const Runtime> shared(Runtime session) {
  return std::make_shared<const Runtime>(std::move(session));
}

Workers measured_workers(unsigned most, const LoadOptions& options,
                         const std::function<Runtime(const LoadOptions&)>& load) {
  Workers workers;
  workers.sessions.push_back(shared(load(options)));
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
  const auto replicated = shared(load(single));
  const double together = measured_rate(*workers.sessions.front(), 1);
  const double apart = measured_rate(*replicated, processors);
  if (replicas_are_worth_it(together, apart)) {
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

Workers workers_of_devices(unsigned most, const LoadOptions& options,
                           const std::function<Runtime(const LoadOptions&)>& load) {
  Workers workers;
  workers.sessions.push_back(shared(load(options)));
  const Verdict& verdict = workers.sessions.front()->verdict();
  std::vector<Device> devices;
  for (const ProviderAttempt& attempt : verdict.tried) {
    if (attempt.outcome != ProviderAttempt::Outcome::active || !devices.empty()) continue;
    devices = attempt.devices;
  }
  const std::vector<unsigned> indices = devices_of_workers(devices, options.device, most);
  if (indices.size() > 1) require_device(verdict, indices.front());
  for (const unsigned index : std::span(indices).subspan(1)) {
    LoadOptions other = options;
    other.device = index;
    workers.sessions.push_back(shared(load(other)));
    require_device(workers.sessions.back()->verdict(), index);
  }
  workers.choice = fmt::format("{} workers, one a device", workers.sessions.size());
  return workers;
}

}  // namespace

WorkerRequest worker_request_from(const std::string& text, const std::string& said_by) {
  WorkerRequest request;
  if (text == "auto") {
    request.kind = WorkerRequest::Kind::automatic;
    return request;
  }
  if (text == "devices") {
    request.kind = WorkerRequest::Kind::devices;
    return request;
  }
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), request.count);
  if (failure != std::errc() || end != text.data() + text.size() || request.count == 0 || request.count > 1024) {
    throw Error(ErrorCode::usage, fmt::format("{} is '{}'; accepted: 1 to 1024, auto, devices", said_by, text));
  }
  return request;
}

std::vector<std::unique_ptr<runtime::Replica>> Workers::make_replicas() const {
  std::vector<std::unique_ptr<runtime::Replica>> made;
  for (const auto& session : sessions) {
    for (unsigned i = 0; i < replicas; ++i) {
      made.push_back(std::make_unique<runtime::SessionReplica>(*session));
    }
  }
  return made;
}

Workers load_workers(const WorkerRequest& request, const LoadOptions& options, bool threads_are_set,
                     const std::function<Runtime(const LoadOptions&)>& load) {
  switch (request.kind) {
    case WorkerRequest::Kind::automatic:
      return measured_workers(request.most, options, load);
    case WorkerRequest::Kind::devices:
      return workers_of_devices(request.most, options, load);
    case WorkerRequest::Kind::count:
      break;
  }
  Workers workers;
  LoadOptions wanted = options;
  if (request.count > 1 && !threads_are_set) wanted.intra_threads = 1;
  workers.sessions.push_back(shared(load(wanted)));
  workers.replicas = request.count;
  return workers;
}

std::vector<unsigned> devices_of_workers(std::span<const Device> devices, std::optional<unsigned> chosen,
                                         unsigned most) {
  std::vector<unsigned> indices{chosen.value_or(devices.empty() ? 0 : devices.front().index)};
  for (const Device& device : devices) {
    if (most != 0 && indices.size() == most) break;
    if (device.index != indices.front()) indices.push_back(device.index);
  }
  return indices;
}

bool replicas_are_worth_it(double shared_runs_per_s, double replicated_runs_per_s) noexcept {
  return replicated_runs_per_s > 1.1 * shared_runs_per_s;
}

}  // namespace gpux::server
