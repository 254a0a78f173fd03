#include "server/models/served_session.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/utf8_prefix.h"
#include "runtime/check_inputs.h"
#include "runtime/scheduling/batch.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

// A worker process may be starting, which takes as long as a load.
bool runs_on_the_processor(const Runtime& runtime) {
  const Verdict& verdict = runtime.verdict();
  return !runtime.worker() && verdict.placement_known &&
         std::all_of(verdict.active.begin(), verdict.active.end(),
                     [](const std::string& provider) { return provider == "cpu"; });
}

std::vector<std::unique_ptr<runtime::Replica>> lanes_of(const Runtime& runtime, std::size_t count) {
  std::vector<std::unique_ptr<runtime::Replica>> lanes;
  if (!runs_on_the_processor(runtime)) return lanes;
  for (std::size_t i = 0; i < count; ++i) lanes.push_back(std::make_unique<runtime::SessionReplica>(runtime));
  return lanes;
}

std::vector<std::size_t> all_outputs(const Signature& signature) {
  std::vector<std::size_t> indices(signature.outputs.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

// Only where there are several devices: a trial run tells which of them works.
std::optional<runtime::InferRequest> trial_of(const Workers& workers, const ServingOptions& options) {
  if (workers.devices().size() < 2) return std::nullopt;
  const Signature& signature = workers.sessions.front()->info().signature;
  try {
    return runtime::InferRequest{
        .inputs = synthetic_inputs(signature, options.warm_up.empty() ? DimensionSizes() : options.warm_up.front()),
        .outputs = all_outputs(signature),
        .deadline = {}};
  } catch (const Error&) {
    return std::nullopt;
  }
}

ServingOptions with_single_runs(ServingOptions options) {
  if (options.max_batch_size <= 1) {
    options.sharing = {false, RunSharing::Source::single_run, "max_batch_size is 1"};
  }
  return options;
}

}  // namespace

ServedSession::ServedSession(SessionParts parts, std::shared_ptr<ModelStatistics> statistics)
    : workers_(std::move(parts.workers)),
      options_(with_single_runs(std::move(parts.options))),
      statistics_(std::move(statistics)),
      scheduler_(workers_.make_replicas(),
                 {.batch = {.max_rows = options_.max_batch_size,
                            .max_delay = options_.max_queue_delay,
                            .look_ahead = 64,
                            .max_cost = options_.max_batch_cost,
                            .counts_padding = options_.padding == nullptr || options_.padding->is_computed,
                            .fills_rows = options_.fills_rows},
                  .can_batch = can_batch(),
                  .padding = options_.padding,
                  .max_queue = options_.max_queue,
                  .on_run =
                      [this](const runtime::RunReport& run) {
                        if (!run.is_probe) statistics_->count(run);
                      },
                  .trial = trial_of(workers_, options_),
                  .computing_per_device = workers_.computing_per_device(),
                  .device_names = workers_.device_names()},
                 lanes_of(runtime(), options_.quick_lanes)) {}

std::vector<WorkerStatus> ServedSession::worker_processes() const {
  std::vector<WorkerStatus> all;
  for (const auto& session : workers_.sessions) {
    if (std::optional<WorkerStatus> status = session->worker()) all.push_back(*std::move(status));
  }
  return all;
}

bool ServedSession::has_a_worker() const {
  const std::vector<runtime::DeviceReport> all = scheduler_.devices();
  for (std::size_t session = 0; session < workers_.sessions.size(); ++session) {
    const std::optional<WorkerStatus> worker = workers_.sessions[session]->worker();
    if (!worker) return true;
    if (worker->state == WorkerStatus::State::ready &&
        all.at(workers_.device_number(session)).state != runtime::DeviceState::out) {
      return true;
    }
  }
  return false;
}

bool ServedSession::has_lost_device() const {
  return std::ranges::all_of(workers_.sessions, [](const auto& session) { return session->lost_device().has_value(); });
}

runtime::Scheduler::Ticket ServedSession::submit(runtime::InferRequest request, runtime::Completion done,
                                                 runtime::Here here) {
  const Clock::time_point arrived = request.arrived;
  try {
    runtime::check_inputs(signature(), request.inputs);
    if (request.outputs.empty()) request.outputs = all_outputs(signature());
    if (options_.timeout) {
      const auto latest = arrived + *options_.timeout;
      request.deadline = request.deadline ? std::min(*request.deadline, latest) : latest;
    }
    std::int64_t rows = 1;
    if (can_batch()) rows = runtime::shared_rows(request.inputs).value_or(1);
    return scheduler_.submit(
        std::move(request),
        [this, rows, arrived, done = std::move(done)](runtime::InferAnswer&& answer) {
          if (answer.error) {
            statistics_->count(*answer.error, arrived, true);
          } else {
            const Clock::time_point now = Clock::now();
            ++statistics_->succeeded;
            statistics_->rows += static_cast<std::uint64_t>(rows);
            statistics_->last_success = statistics_->last_answer = now.time_since_epoch().count();
            statistics_->total.add(now - arrived);
            statistics_->queue.add(answer.times.queue);
            statistics_->input.add(answer.times.input);
            statistics_->compute.add(answer.times.compute);
            statistics_->output.add(answer.times.output);
          }
          done(std::move(answer));
        },
        here);
  } catch (const Error& error) {
    statistics_->count(error, arrived);
    throw;
  }
}

std::vector<std::size_t> output_indices(const std::vector<std::string>& names, const Signature& signature) {
  std::vector<std::size_t> indices;
  for (const std::string& name : names) {
    const auto found = std::find_if(signature.outputs.begin(), signature.outputs.end(),
                                    [&](const SignatureEntry& entry) { return entry.name == name; });
    if (found == signature.outputs.end()) {
      throw Error(ErrorCode::invalid_input, fmt::format("there is no output '{}'", utf8_prefix(name, 80)));
    }
    indices.push_back(static_cast<std::size_t>(found - signature.outputs.begin()));
  }
  return indices;
}

}  // namespace gpux::server
