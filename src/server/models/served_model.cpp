#include "server/models/served_model.h"

#include <algorithm>
#include <utility>

#include "server/models/engine_choice.h"

namespace gpux::server {
namespace {

RequestLimits request_limits(const ModelLimits& limits) {
  return {.requests_per_minute = limits.requests_per_minute,
          .tokens_per_minute = limits.tokens_per_minute,
          .tokens_per_day = limits.tokens_per_day,
          .requests_in_flight = limits.requests_in_flight};
}

bool may_repeat_answers(const ModelParts& parts) {
  try {
    const auto repeats = [](const SessionParts& session) {
      return session.workers.sessions.front()->repetition_obstacle().empty();
    };
    return repeats(parts.session) && (!parts.image_tower || repeats(*parts.image_tower));
  } catch (const Error&) {  // a file has gone since
    return false;
  }
}

std::vector<DeclaredValue> declared_outputs_of(const ModelParts& parts) {
  const std::optional<std::vector<DeclaredValue>> said = parts.project ? parts.project->outputs : std::nullopt;
  if (parts.pipeline) return parts.pipeline->outputs(said);
  return said.value_or(std::vector<DeclaredValue>());
}

RanOn ran_on_of(const ModelParts& parts) {
  RanOn both = ran_on(parts.session.workers.sessions.front()->verdict(), parts.digest);
  if (parts.image_tower) {
    both.header = header_of_towers(both.header, parts.image_tower->workers.sessions.front()->verdict());
  }
  return both;
}

void add_to(runtime::SchedulerCounts& counts, const runtime::SchedulerCounts& more) {
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
}

}  // namespace

ServedModel::ServedModel(ModelParts parts, std::shared_ptr<ModelStatistics> statistics,
                         std::vector<DeviceUse> device_uses)
    : parts_(std::move(parts)),
      repeats_answers_(may_repeat_answers(parts_)),
      device_uses_(std::move(device_uses)),
      declared_outputs_(declared_outputs_of(parts_)),
      ran_on_(ran_on_of(parts_)),
      session_(parts_.session, std::move(statistics)) {
  if (parts_.image_tower) image_tower_.emplace(*parts_.image_tower, session_.statistics());
}

ServedModel::~ServedModel() {
  for (const auto& engine : engines()) statistics().generation.engines.remove(engine);
}

Verdict ServedModel::verdict() const {
  return engine() ? engine()->verdict() : runtime().verdict();
}

std::string_view ServedModel::chat_problem() const noexcept {
  return parts_.generation.chat.has_template()
             ? "its chat template cannot be used; the log of the server has the reason"
             : "it has no chat template";
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

std::uint64_t ServedModel::size_bytes() const noexcept {
  const Runtime* const draft = engines().empty() ? nullptr : engines().front()->draft_runtime();
  return runtime().info().total_bytes() + (image_tower_ ? image_tower_->runtime().info().total_bytes() : 0) +
         (draft != nullptr ? draft->info().total_bytes() : 0);
}

std::vector<WorkerStatus> ServedModel::worker_processes() const {
  std::vector<WorkerStatus> all = session_.worker_processes();
  if (image_tower_) {
    for (WorkerStatus& status : image_tower_->worker_processes()) all.push_back(std::move(status));
  }
  for (const auto& engine : engines()) {
    const Runtime* const draft = engine->draft_runtime();
    std::optional<WorkerStatus> status = draft != nullptr ? draft->worker() : std::nullopt;
    if (status) all.push_back(*std::move(status));
  }
  return all;
}

std::uint64_t ServedModel::worker_bytes() const {
  std::uint64_t bytes = 0;
  for (const WorkerStatus& status : worker_processes()) bytes += status.resident_bytes;
  return bytes;
}

bool ServedModel::has_a_worker() const {
  return session_.has_a_worker() && (!image_tower_ || image_tower_->has_a_worker());
}

bool ServedModel::has_lost_device() const {
  return session_.has_lost_device() || (image_tower_ && image_tower_->has_lost_device());
}

bool ServedModel::has_lost_all_devices() const {
  const std::vector<runtime::DeviceReport> all = devices();
  return all.size() > 1 && std::ranges::all_of(all, [](const runtime::DeviceReport& device) {
           return device.state == runtime::DeviceState::out;
         });
}

runtime::SchedulerCounts ServedModel::counts() const {
  runtime::SchedulerCounts counts = session_.scheduler().counts();
  const generation::EngineStatistics texts = engine_statistics();
  counts.waiting += texts.waiting;
  counts.running += texts.running;
  if (image_tower_) add_to(counts, image_tower_->scheduler().counts());
  return counts;
}

void ServedModel::abandon() {
  session_.scheduler().abandon();
  if (engine()) {
    for (const auto& engine : engines()) engine->drain(std::chrono::steady_clock::now());  // takes no more
    std::map<std::uint64_t, std::function<void()>> texts;
    {
      const std::lock_guard lock(texts_mutex_);
      texts.swap(texts_);
    }
    for (const auto& [number, end] : texts) end();
  }
  if (image_tower_) image_tower_->scheduler().abandon();
}

std::shared_ptr<generation::Engine> ServedModel::engine_for(std::string_view cache_scope,
                                                            std::span<const std::uint32_t> prompt) const {
  if (engines().size() == 1) return engines().front();
  std::vector<EngineLoad> loads;
  for (const auto& engine : engines()) {
    const generation::EngineStatistics now = engine->statistics();
    loads.push_back({.texts = now.running + now.waiting,
                     .slots = now.slots,
                     .is_usable = !engine->runtime().lost_device().has_value()});
  }
  return engines()[choose_engine(loads, beginning_of(cache_scope, prompt))];
}

generation::EngineStatistics ServedModel::engine_statistics() const {
  generation::EngineStatistics all;
  for (const auto& engine : engines()) add_to(all, engine->statistics());
  return all;
}

std::shared_ptr<ServedSession> session_of(const std::shared_ptr<ServedModel>& model) noexcept {
  return {model, &model->session()};
}

std::shared_ptr<ServedSession> image_session_of(const std::shared_ptr<ServedModel>& model) noexcept {
  return {model, &model->image_session()};
}

std::shared_ptr<LimitedRequest> ServedModel::begin_limited(std::optional<LimitRefusal>& refusal) {
  const LimitRules rules{.each = request_limits(parts_.limits), .by_key = {}};
  if (!rules.each.has_any()) return nullptr;
  const Caller model{.key = name()};
  refusal = statistics().limiter->admit(model, rules);
  return refusal ? nullptr : statistics().limiter->begin(model, rules, refusal);
}

std::optional<KeyCounts> ServedModel::limited_counts() const {
  if (!request_limits(parts_.limits).has_any()) return std::nullopt;
  const std::map<std::string, KeyCounts> counts = session_.statistics()->limiter->counts();
  const auto own = counts.find(name());
  return own == counts.end() ? KeyCounts() : own->second;
}

}  // namespace gpux::server
