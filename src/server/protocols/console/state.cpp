#include "server/protocols/console/state.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/home.h"
#include "base/machine.h"
#include "provider/device_json.h"
#include "provider/probe.h"
#include "server/models/model_description.h"
#include "server/models/path_redaction.h"
#include "server/protocols/console/kept_value.h"

namespace gpux::server::console {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::system_clock;

std::int64_t milliseconds_since_1970(system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

std::string_view name_of(ModelState state) noexcept {
  switch (state) {
    case ModelState::unloaded:
      return "unloaded";
    case ModelState::queued:
    case ModelState::restore_queued:
      return "waiting to be loaded";
    case ModelState::loading:
    case ModelState::restoring:
      return "loading";
    case ModelState::ready:
      return "ready";
    case ModelState::reloading:
      return "reloading";
    case ModelState::evicted:
      return "loaded on request";
    case ModelState::failed:
      return "failed";
    case ModelState::unloading:
      return "unloading";
  }
  return "";
}

std::string_view name_of(log::Level level) noexcept {
  switch (level) {
    case log::Level::debug:
      return "debug";
    case log::Level::info:
      return "info";
    case log::Level::warning:
      return "warning";
    case log::Level::error:
    case log::Level::off:
      break;
  }
  return "error";
}

Json counts_of(const Histogram& histogram) {
  Json counts = Json::array();
  for (std::size_t i = 0; i <= Histogram::bounds.size(); ++i) counts.push_back(histogram.in_bucket(i));
  return counts;
}

Json abilities_of(const ModelDescription& description) {
  Json names = Json::array();
  for (const TextAbility ability : description.abilities) {
    if (const std::string_view name = console::name_of(ability); !name.empty()) names.push_back(name);
  }
  return names;
}

// Why each provider of the request was used, or not.
Json tried_of(const Verdict& verdict) {
  Json tried = Json::array();
  for (const ProviderAttempt& attempt : verdict.tried) {
    Json one{{"provider", attempt.id}, {"outcome", to_string(attempt.outcome)}, {"nodes", attempt.node_count}};
    if (!attempt.reason.empty()) one["reason"] = without_paths(attempt.reason);
    if (!attempt.remedy.empty()) one["remedy"] = without_paths(to_string(attempt.remedy));
    tried.push_back(std::move(one));
  }
  return tried;
}

Json requests_of(const ModelStatistics& counts) {
  return {{"succeeded", counts.succeeded.load()}, {"rejected", counts.rejected.load()},
          {"cancelled", counts.cancelled.load()}, {"expired", counts.expired.load()},
          {"invalid", counts.invalid.load()},     {"failed", counts.failed.load()}};
}

// Rows of a run, and how many runs had so many.
Json batches_of(const ModelStatistics& counts) {
  Json batches = Json::array();
  for (const auto& [rows, batch] : counts.batches()) batches.push_back(Json::array({rows, batch.runs}));
  return batches;
}

Json texts_of(const ModelStatistics& counts) {
  const generation::EngineStatistics engines = counts.generation.engines.sum();
  return {{"running", engines.running},
          {"waiting", engines.waiting},
          {"slots", engines.slots},
          {"cache_bytes", engines.cache_bytes},
          {"max_cache_bytes", engines.max_cache_bytes},
          {"prompt_tokens", engines.prompt_tokens},
          {"reused_tokens", engines.reused_tokens},
          {"generated_tokens", engines.generated_tokens},
          {"first_token", counts_of(counts.generation.time_to_first_token)},
          {"next_token", counts_of(counts.generation.time_between_tokens)}};
}

// What is known of a model also while it is not loaded.
void add_description(Json& json, const ModelDescription& description) {
  json["verdict"] = without_paths(to_line(description.verdict));
  json["providers"] = description.verdict.active;
  json["precision"] = description.verdict.precision;
  json["tried"] = tried_of(description.verdict);
  json["sharing"] = to_line(description.options.sharing);
  json["abilities"] = abilities_of(description);
  json["context_length"] = description.context_length;
  json["file_bytes"] = description.info.total_bytes();
  const ModelStatistics& counts = *description.statistics;
  json["requests"] = requests_of(counts);
  json["rows"] = counts.rows.load();
  json["runs"] = counts.runs.load();
  json["batches"] = batches_of(counts);
  json["durations"] = {{"total", counts_of(counts.total)},
                       {"queue", counts_of(counts.queue)},
                       {"compute", counts_of(counts.compute)},
                       {"failure", counts_of(counts.failure)}};
  if (description.context_length != 0) json["texts"] = texts_of(counts);
}

// Of all models, as the drivers are asked for all devices at once. The first question loads their libraries.
MemoryOfDevices device_memory() {
  static KeptValue<MemoryOfDevices> kept(std::chrono::seconds(10));
  return kept.at(std::chrono::steady_clock::now(), [] { return provider::read_device_memory(Machine::this_one()); });
}

// Those that a load can choose. No library is opened for it: one that crashes would end the server.
Json usable_providers() {
  static KeptValue<Json> kept(std::chrono::hours(1));
  return kept.at(std::chrono::steady_clock::now(), [] {
    Json usable = Json::array();
    for (const ProviderReport& report : provider::survey_known(Machine::this_one())) {
      if (report.available) usable.push_back({{"id", report.id}, {"kind", report.kind}});
    }
    return usable;
  });
}

Json devices_of(const ServedModel& model, std::optional<MemoryOfDevices>& memory) {
  Json all = Json::array();
  const std::vector<runtime::DeviceReport> reports = model.devices();
  const auto sessions = model.workers().devices();
  for (std::size_t index = 0; index < reports.size(); ++index) {
    const runtime::DeviceReport& report = reports[index];
    Json one{{"state", to_string(report.state)}, {"runs", report.runs}, {"failures", report.failures}};
    if (!report.reason.empty()) one["reason"] = without_paths(report.reason);
    if (const Device* device = device_of(sessions[index]->verdict())) {
      one["name"] = device->name;
      one["index"] = device->index;
      if (device->memory_bytes != 0) one["memory_bytes"] = device->memory_bytes;
      if (!device->address.empty()) {
        if (!memory) memory = device_memory();
        const auto known = memory->find(device->address);
        if (known != memory->end()) one["free_bytes"] = known->second.free;
      }
    }
    all.push_back(std::move(one));
  }
  return all;
}

Json workers_of(const ServedModel& model) {
  Json all = Json::array();
  for (const WorkerStatus& status : model.worker_processes()) {
    all.push_back({{"state", to_string(status.state)},
                   {"process_id", status.process_id},
                   {"restarts", status.restarts},
                   {"lost_runs", status.lost_runs},
                   {"resident_bytes", status.resident_bytes},
                   {"last_end", without_paths(status.last_end)}});
  }
  return all;
}

// What only a loaded model has.
void add_session(Json& json, const ServedModel& model, std::optional<MemoryOfDevices>& memory) {
  const runtime::SchedulerCounts now = model.counts();
  json["waiting"] = now.waiting;
  json["running"] = now.running;
  json["overdue"] = now.overdue_runs;
  json["takes_images"] = model.image_input() != nullptr;
  json["calls_tools"] = model.chat() != nullptr && model.chat()->shows_tools();
  json["devices"] = devices_of(model, memory);
  json["workers"] = workers_of(model);
  json["device_uses"] = Json::array();
  for (const DeviceUse& use : model.device_uses()) {
    json["device_uses"].push_back({{"provider", use.provider}, {"device", use.device.name}, {"bytes", use.bytes}});
  }
}

Json server_of(ServiceState& service) {
  const http::Counters http = service.counters ? service.counters() : http::Counters{};
  std::uint64_t calls = 0;
  if (service.grpc_counts) {
    for (const GrpcMethodCounts& method : service.grpc_counts->methods()) calls += method.in_flight();
  }
  const auto uptime = std::chrono::steady_clock::now() - service.started;
  const std::shared_ptr<const AccessRules> rules = service.options.access->rules();
  const ApiKeys& keys = rules->keys;
  return {{"version", gpux::version()},
          {"uptime_seconds", std::chrono::duration<double>(uptime).count()},
          {"is_ready", service.is_ready.load()},
          {"has_keys", keys.are_required()},
          {"has_admin_keys", keys.has_admin_keys()},
          {"serves_store", service.changes.options().serves_store},
          {"providers", usable_providers()},
          {"resident_bytes", resident_bytes()},
          {"request_memory_bytes", http.held_bytes},
          {"connections", http.connections_open},
          {"requests", http.requests},
          {"refused", http.requests_refused},
          {"grpc_calls", calls}};
}

template <typename Model>
std::map<std::pair<std::string, std::string>, std::shared_ptr<Model>> by_name(
    const std::vector<std::shared_ptr<Model>>& models) {
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Model>> found;
  for (const auto& model : models) {
    if constexpr (requires { model->name(); }) {
      found.emplace(std::pair(model->name(), model->version()), model);
    } else {
      found.emplace(std::pair(model->name, model->version), model);
    }
  }
  return found;
}

std::string text_of(const log::RecentLine& line) {
  std::string text = without_paths(line.message);
  for (const auto& [name, value] : line.fields) {
    text += ' ' + name + '=' + (name == "path" ? value : without_paths(value));
  }
  return text;
}

std::string written(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string_view name_of(TextAbility ability) noexcept {
  switch (ability) {
    case TextAbility::embed:
      return "embed";
    case TextAbility::embed_sparse:
      return "embed_sparse";
    case TextAbility::embed_images:
      return "embed_images";
    case TextAbility::classify:
      return "classify";
    case TextAbility::find_entities:
      return "find_entities";
    case TextAbility::answer_questions:
      return "answer_questions";
    case TextAbility::rank:
      return "rank";
    case TextAbility::generate:
      return "generate";
    case TextAbility::chat:
      return "chat";
    case TextAbility::tokenize:
    case TextAbility::embed_tokens:
    case TextAbility::embed_any:
    case TextAbility::any:
      break;
  }
  return "";
}

std::string state_json(ServiceState& service) {
  ModelRepository& repository = service.repository;
  const auto loaded = by_name(repository.models_in_use());
  const auto described = by_name(repository.descriptions());
  std::optional<MemoryOfDevices> memory;
  Json models = Json::array();
  for (const ModelStatus& status : repository.index()) {
    Json one{{"name", status.name},
             {"version", status.version},
             {"state", name_of(status.state)},
             {"reason", status.reason},
             {"serves", is_available(status.state)},
             {"memory_bytes", status.memory_bytes}};
    const std::pair key(status.name, status.version);
    const auto model = loaded.find(key);
    if (const auto description = described.find(key); description != described.end()) {
      add_description(one, *description->second);
    } else if (model != loaded.end()) {
      add_description(one, *describe(*model->second));
    }
    if (model != loaded.end()) add_session(one, *model->second, memory);
    models.push_back(std::move(one));
  }
  return written({{"server", server_of(service)}, {"bounds", Histogram::bounds}, {"models", std::move(models)}});
}

std::string records_json(std::span<const FailedRequest> failures, std::span<const log::RecentLine> lines) {
  Json page{{"failures", Json::array()}, {"log", Json::array()}};
  for (const FailedRequest& failed : failures) {
    page["failures"].push_back({{"time", milliseconds_since_1970(failed.time)},
                                {"method", failed.method},
                                {"path", failed.path},
                                {"status", failed.status},
                                {"reason", failed.reason},
                                {"id", failed.id},
                                {"milliseconds", failed.milliseconds},
                                {"count", failed.count}});
  }
  for (const log::RecentLine& line : lines) {
    page["log"].push_back(
        {{"time", milliseconds_since_1970(line.time)}, {"level", name_of(line.level)}, {"text", text_of(line)}});
  }
  return written(page);
}

}  // namespace gpux::server::console
