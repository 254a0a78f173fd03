#include "server/models/served_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "provider/table.h"
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

std::vector<std::size_t> indices_of(const std::vector<std::string>& names, const Signature& signature) {
  std::vector<std::size_t> indices;
  if (names.empty()) {
    for (std::size_t i = 0; i < signature.outputs.size(); ++i) indices.push_back(i);
    return indices;
  }
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

// Only where there are several devices: a trial run tells which of them works.
std::optional<runtime::InferRequest> trial_of(const Workers& workers, const ServingOptions& options) {
  if (workers.devices().size() < 2) return std::nullopt;
  const Signature& signature = workers.sessions.front()->info().signature;
  try {
    return runtime::InferRequest{
        .inputs = synthetic_inputs(signature, options.warm_up.empty() ? DimensionSizes() : options.warm_up.front()),
        .outputs = indices_of({}, signature),
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

void Histogram::add(std::chrono::nanoseconds duration) noexcept {
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto place = std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin();
  counts_[static_cast<std::size_t>(place)].fetch_add(1, std::memory_order_relaxed);
  nanoseconds_.fetch_add(duration.count(), std::memory_order_relaxed);
}

std::uint64_t Histogram::count() const noexcept {
  std::uint64_t total = 0;
  for (const auto& count : counts_) total += count.load(std::memory_order_relaxed);
  return total;
}

std::chrono::nanoseconds Histogram::sum() const noexcept {
  return std::chrono::nanoseconds(nanoseconds_.load(std::memory_order_relaxed));
}

std::uint64_t Histogram::in_bucket(std::size_t index) const noexcept {
  return counts_[index].load(std::memory_order_relaxed);
}

void EngineCounts::add(const std::shared_ptr<const generation::Engine>& engine) {
  const std::lock_guard lock(mutex_);
  engines_.push_back(engine);
}

void EngineCounts::remove(const std::shared_ptr<const generation::Engine>& engine) {
  const std::lock_guard lock(mutex_);
  if (std::erase(engines_, engine) == 0) return;
  const generation::EngineStatistics last = engine->statistics();
  ended_.steps += last.steps;
  ended_.prompt_tokens += last.prompt_tokens;
  ended_.reused_tokens += last.reused_tokens;
  ended_.generated_tokens += last.generated_tokens;
  ended_.finished += last.finished;
  ended_.cancelled += last.cancelled;
  ended_.failed += last.failed;
  ended_.preempted += last.preempted;
}

generation::EngineStatistics EngineCounts::sum() const {
  const std::lock_guard lock(mutex_);
  generation::EngineStatistics sum = ended_;
  for (const auto& engine : engines_) {
    const generation::EngineStatistics one = engine->statistics();
    sum.running += one.running;
    sum.waiting += one.waiting;
    sum.slots += one.slots;
    sum.cached_tokens += one.cached_tokens;
    sum.cache_bytes += one.cache_bytes;
    sum.max_cache_bytes += one.max_cache_bytes;
    sum.steps += one.steps;
    sum.prompt_tokens += one.prompt_tokens;
    sum.reused_tokens += one.reused_tokens;
    sum.generated_tokens += one.generated_tokens;
    sum.finished += one.finished;
    sum.cancelled += one.cancelled;
    sum.failed += one.failed;
    sum.preempted += one.preempted;
  }
  return sum;
}

void ModelStatistics::count(const Error& error, Clock::time_point arrived, bool admitted) noexcept {
  failure.add(Clock::now() - arrived);
  switch (error.code()) {
    case ErrorCode::resource_exhausted:
      ++(admitted ? failed : rejected);
      break;
    case ErrorCode::interrupted:
      ++cancelled;
      break;
    case ErrorCode::deadline_exceeded:
      ++expired;
      break;
    case ErrorCode::invalid_input:
      ++invalid;
      break;
    default:
      ++failed;
  }
}

void ModelStatistics::count(const runtime::RunReport& run) {
  ++runs;
  const std::lock_guard lock(mutex_);
  BatchStatistics& batch = batches_[run.rows];
  ++batch.runs;
  batch.input += run.input;
  batch.compute += run.compute;
  batch.output += run.output;
}

std::map<std::int64_t, BatchStatistics> ModelStatistics::batches() const {
  const std::lock_guard lock(mutex_);
  return batches_;
}

ServedModel::ServedModel(std::string name, std::string version, Workers workers, std::optional<ProjectFile> project,
                         const ServingOptions& options)
    : name_(std::move(name)),
      version_(std::move(version)),
      workers_(std::move(workers)),
      project_(std::move(project)),
      options_(with_single_runs(options)),
      scheduler_(workers_.make_replicas(),
                 {.batch = {.max_rows = options.max_batch_size,
                            .max_delay = options.max_queue_delay,
                            .look_ahead = 64,
                            .max_cost = options.max_batch_cost,
                            .counts_padding = options.padding == nullptr || options.padding->is_computed,
                            .fills_rows = options.fills_rows},
                  .can_batch = can_batch(),
                  .padding = options.padding,
                  .max_queue = options.max_queue,
                  .on_run =
                      [this](const runtime::RunReport& run) {
                        if (!run.is_probe) statistics_->count(run);
                      },
                  .trial = trial_of(workers_, options),
                  .computing_per_device = workers_.computing_per_device(),
                  .device_names = workers_.device_names()},
                 lanes_of(runtime(), options.quick_lanes)) {
  if (project_ && project_->outputs) declared_outputs_ = *project_->outputs;
}

ServedModel::~ServedModel() {
  if (engine_) statistics_->generation.engines.remove(engine_);
}

Verdict ServedModel::verdict() const {
  return engine_ ? engine_->verdict() : runtime().verdict();
}

std::string_view ServedModel::lack_of_chat() const noexcept {
  return chat_.has_template() ? "its chat template cannot be used; the log of the server has the reason"
                              : "it has no chat template";
}

void ServedModel::set_engine(std::shared_ptr<generation::Engine> engine, const GeneratorOptions& options) {
  engine_ = std::move(engine);
  generator_options_ = options;
  statistics_->generation.engines.add(engine_);
}

std::uint64_t ServedModel::begin_texts(std::function<void()> end) {
  const std::lock_guard lock(texts_mutex_);
  texts_.emplace(++last_texts_, std::move(end));
  return last_texts_;
}

void ServedModel::end_texts(std::uint64_t number) {
  std::function<void()> end;  // let go without the lock
  const std::lock_guard lock(texts_mutex_);
  if (const auto found = texts_.find(number); found != texts_.end()) {
    end.swap(found->second);
    texts_.erase(found);
  }
}

void ServedModel::set_pipeline(std::shared_ptr<const pipeline::Pipeline> pipeline) {
  pipeline_ = std::move(pipeline);
  declared_outputs_ = pipeline_->outputs(project_ ? project_->outputs : std::nullopt);
}

void ServedModel::set_image_encoder(std::shared_ptr<const embedding::ImageEncoder> encoder,
                                    std::unique_ptr<ServedModel> tower) {
  image_encoder_ = std::move(encoder);
  image_tower_ = std::move(tower);
  if (image_tower_) image_tower_->continue_statistics(statistics_);
}

std::uint64_t ServedModel::size_bytes() const noexcept {
  return runtime().info().total_bytes() + (image_tower_ ? image_tower_->size_bytes() : 0);
}

void ServedModel::continue_statistics(const std::shared_ptr<ModelStatistics>& statistics) noexcept {
  if (engine_) {
    statistics_->generation.engines.remove(engine_);
    statistics->generation.engines.add(engine_);
  }
  statistics_ = statistics;
  if (image_tower_) image_tower_->continue_statistics(statistics);
}

std::vector<WorkerStatus> ServedModel::worker_processes() const {
  std::vector<WorkerStatus> all;
  for (const auto& session : workers_.sessions) {
    if (std::optional<WorkerStatus> status = session->worker()) all.push_back(*std::move(status));
  }
  if (image_tower_) {
    for (WorkerStatus& status : image_tower_->worker_processes()) all.push_back(std::move(status));
  }
  return all;
}

void ServedModel::set_device_uses(const MemoryOfDevices& before) {
  std::vector<DeviceSession> sessions;
  const auto add = [&](const Workers& workers) {
    for (const auto& session : workers.sessions) {
      for (const ProviderAttempt& attempt : session->verdict().tried) {
        if (attempt.outcome != ProviderAttempt::Outcome::active || !attempt.device) continue;
        // The memory of a processor is the host's. A plugin that gpux does not know may have some of its own.
        if (attempt.device->kind == "cpu" && provider::find_row(attempt.id) != nullptr) continue;
        sessions.push_back({.provider = attempt.id, .device = *attempt.device});
      }
    }
  };
  add(workers_);
  if (image_tower_) add(image_tower_->workers_);
  if (sessions.empty()) return;
  device_uses_ = server::device_uses(sessions, provider::expected_session_bytes(runtime().info().total_bytes()), before,
                                     provider::read_device_memory(Machine::this_one()));
}

std::uint64_t ServedModel::worker_bytes() const {
  std::uint64_t bytes = 0;
  for (const WorkerStatus& status : worker_processes()) bytes += status.resident_bytes;
  return bytes;
}

bool ServedModel::has_a_worker() const {
  const std::vector<runtime::DeviceReport> all = devices();
  const auto serves = [&](std::size_t session) {
    const std::optional<WorkerStatus> worker = workers_.sessions[session]->worker();
    if (!worker) return true;
    return worker->state == WorkerStatus::State::ready &&
           all.at(workers_.device_number(session)).state != runtime::DeviceState::out;
  };
  for (std::size_t session = 0; session < workers_.sessions.size(); ++session) {
    if (serves(session)) return !image_tower_ || image_tower_->has_a_worker();
  }
  return false;
}

bool ServedModel::has_lost_device() const {
  const auto is_lost = [](const auto& session) { return session->lost_device().has_value(); };
  return std::ranges::all_of(workers_.sessions, is_lost) || (image_tower_ && image_tower_->has_lost_device());
}

bool ServedModel::has_lost_all_devices() const {
  const std::vector<runtime::DeviceReport> all = devices();
  return all.size() > 1 && std::ranges::all_of(all, [](const runtime::DeviceReport& device) {
           return device.state == runtime::DeviceState::out;
         });
}

runtime::SchedulerCounts ServedModel::counts() const {
  runtime::SchedulerCounts counts = scheduler_.counts();
  if (engine_) {
    const generation::EngineStatistics texts = engine_->statistics();
    counts.waiting += texts.waiting;
    counts.running += texts.running;
  }
  if (!image_tower_) return counts;
  const runtime::SchedulerCounts more = image_tower_->counts();
  counts.runs += more.runs;
  counts.rejected += more.rejected;
  counts.cancelled += more.cancelled;
  counts.expired += more.expired;
  counts.here += more.here;
  counts.retried += more.retried;
  counts.moved += more.moved;
  counts.waiting += more.waiting;
  counts.running += more.running;
  counts.overdue_runs += more.overdue_runs;
  return counts;
}

void ServedModel::abandon() {
  scheduler_.abandon();
  if (engine_) {
    engine_->drain(Clock::now());  // takes no more
    std::map<std::uint64_t, std::function<void()>> texts;
    {
      const std::lock_guard lock(texts_mutex_);
      texts.swap(texts_);
    }
    for (const auto& [number, end] : texts) end();
  }
  if (image_tower_) image_tower_->abandon();
}

void ServedModel::warm_up() {
  if (image_tower_) image_tower_->warm_up();
  const auto run = [&](const DimensionSizes& sizes) {
    try {
      for (const auto& session : workers_.sessions)
        (void)session->infer(synthetic_inputs(session->info().signature, sizes));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_input) throw;
    }
  };
  if (engine_) {
    generation::EngineRequest request;
    request.prompt.assign(engine_->context_length() > 4 ? 2 : 1, 0);
    request.settings.temperature = 0;
    request.settings.max_tokens = 1;
    (void)generation::generate(*engine_, std::move(request));
  } else if (options_.warm_up.empty()) {
    run({});
  }
  for (const DimensionSizes& sizes : options_.warm_up) run(sizes);
}

runtime::Scheduler::Ticket ServedModel::submit(Call call, runtime::Completion done, runtime::Here here) {
  const Clock::time_point arrived = call.arrived;
  try {
    const Signature& own = runtime().info().signature;
    runtime::check_inputs(own, call.inputs);
    runtime::InferRequest request{.inputs = std::move(call.inputs),
                                  .outputs = indices_of(call.outputs, own),
                                  .priority = call.priority,
                                  .deadline = call.deadline,
                                  .is_admitted = call.is_admitted};
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

std::shared_ptr<ServedModel> image_session_of(const std::shared_ptr<ServedModel>& model) noexcept {
  return model->image_tower() == nullptr ? model : std::shared_ptr<ServedModel>(model, model->image_tower());
}

}  // namespace gpux::server
