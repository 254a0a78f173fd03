#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/machine.h"
#include "base/spelling.h"
#include "provider/device_json.h"
#include "provider/device_memory.h"
#include "server/metrics/metrics.h"
#include "server/models/workers.h"

namespace gpux::server {
namespace {

nlohmann::ordered_json replicas_of(const ServedModel& model, std::optional<MemoryOfDevices>& memory) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const std::vector<runtime::DeviceReport> reports = model.devices();
  const auto sessions = model.workers().devices();
  for (std::size_t index = 0; index < reports.size(); ++index) {
    const runtime::DeviceReport& report = reports[index];
    const Device* device = device_of(sessions[index]->verdict());
    nlohmann::ordered_json one = {{"state", to_string(report.state)},
                                  {"failures", report.failures},
                                  {"runs", report.runs},
                                  {"running", report.running},
                                  {"workers", report.replicas}};
    if (device != nullptr) one["device"] = provider::to_json(*device);
    if (device != nullptr && !device->address.empty()) {
      if (!memory) memory = provider::read_device_memory(Machine::this_one());
      const auto known = memory->find(device->address);
      if (known != memory->end()) one["free_memory_bytes"] = known->second.free;
    }
    if (!report.reason.empty()) one["last_failure"] = report.reason;
    if (report.next_trial) one["next_trial_ms"] = report.next_trial->count();
    all.push_back(std::move(one));
  }
  return all;
}

// By their kinds.
nlohmann::ordered_json json_of(const StoreJobCounts& all) {
  nlohmann::ordered_json kinds;
  for (std::size_t kind = 0; kind < all.size(); ++kind) {
    const JobCounts& counts = all.at(kind);
    kinds[std::string(job_kind_names.at(kind))] = {{"running", counts.running.load()},
                                                   {"succeeded", counts.succeeded.load()},
                                                   {"failed", counts.failed.load()},
                                                   {"cancelled", counts.cancelled.load()},
                                                   {"refused", counts.refused.load()}};
  }
  return kinds;
}

}  // namespace

std::string json_metrics(std::span<const std::shared_ptr<ServedModel>> models, const TransportCounts& transport) {
  nlohmann::ordered_json page;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::optional<MemoryOfDevices> memory;
  for (const auto& model : models) {
    const Verdict& verdict = model->runtime().verdict();
    const ModelStatistics& counts = model->statistics();
    const runtime::SchedulerCounts now = model->counts();
    nlohmann::ordered_json provider;
    for (const ProviderAttempt& attempt : verdict.tried) {
      if (attempt.outcome != ProviderAttempt::Outcome::active) continue;
      if (provider.is_null()) {
        provider = {{"name", attempt.ort_name}, {"id", attempt.id}, {"available", true}};
        provider["config"] = nlohmann::ordered_json::object();
        for (const auto& [name, value] : attempt.options) provider["config"][name] = value;
        provider["device"] = device_name(attempt);
      }
    }
    const auto mean = [](const Histogram& histogram) {
      const std::uint64_t count = histogram.count();
      return count == 0
                 ? 0.0
                 : std::chrono::duration<double, std::milli>(histogram.sum()).count() / static_cast<double>(count);
    };
    all.push_back(
        {{"name", model->name()},
         {"version", model->version()},
         {"provider", provider},
         {"available_providers", verdict.active},
         {"requests",
          {{"succeeded", counts.succeeded.load()},
           {"rejected", counts.rejected.load()},
           {"cancelled", counts.cancelled.load()},
           {"expired", counts.expired.load()},
           {"invalid", counts.invalid.load()},
           {"failed", counts.failed.load()}}},
         {"rows", counts.rows.load()},
         {"runs", counts.runs.load()},
         {"waiting", now.waiting},
         {"running", now.running},
         {"mean_ms",
          {{"total", mean(counts.total)}, {"queue", mean(counts.queue)}, {"compute", mean(counts.compute)}}}});
    all.back()["moved_requests"] = now.moved;
    all.back()["replicas"] = replicas_of(*model, memory);
    for (const auto& [name, value] : given_limits(model->limits())) all.back()["limits"][std::string(name)] = value;
    if (const std::optional<KeyCounts> limited = model->limited_counts()) {
      nlohmann::ordered_json& refused = all.back()["refused_by_limits"];
      for (std::size_t limit = 0; limit < limit_names.size(); ++limit) {
        refused[std::string(limit_names.at(limit))] = limited->refused.at(limit);
      }
    }
    for (const WorkerStatus& status : model->worker_processes()) {
      all.back()["workers"].push_back({{"state", to_string(status.state)},
                                       {"process_id", status.process_id},
                                       {"restarts", status.restarts},
                                       {"lost_runs", status.lost_runs},
                                       {"repeated_runs", status.repeated_runs},
                                       {"resident_bytes", status.resident_bytes},
                                       {"last_end", status.last_end}});
    }
    if (model->engine() == nullptr) continue;
    const generation::EngineStatistics texts = counts.generation.engines.sum();
    all.back()["texts"] = {{"running", texts.running},
                           {"waiting", texts.waiting},
                           {"slots", texts.slots},
                           {"kv_cache_bytes", texts.cache_bytes},
                           {"kv_cache_max_bytes", texts.max_cache_bytes},
                           {"prompt_tokens", texts.prompt_tokens},
                           {"prefix_hit_tokens", texts.reused_tokens},
                           {"generated_tokens", texts.generated_tokens},
                           {"draft_tokens", texts.draft_tokens},
                           {"accepted_draft_tokens", texts.accepted_draft_tokens},
                           {"draft_model_steps", texts.draft_model_steps},
                           {"draft_model_failures", texts.draft_model_failures},
                           {"preempted", texts.preempted},
                           {"mean_time_to_first_token_ms", mean(counts.generation.time_to_first_token)},
                           {"mean_time_between_tokens_ms", mean(counts.generation.time_between_tokens)}};
  }
  // The first two members are what clients of a server with one model look for.
  page["provider"] = models.empty() ? nlohmann::ordered_json() : all.front()["provider"];
  page["available_providers"] = models.empty() ? nlohmann::ordered_json::array() : all.front()["available_providers"];
  page["models"] = all;
  page["http"] = {{"connections", transport.http.connections_open},
                  {"requests", transport.http.requests},
                  {"refused", transport.http.requests_refused},
                  {"cut_off",
                   {{"deadline", transport.http.cut_off_at_deadline},
                    {"slow", transport.http.cut_off_as_slow},
                    {"memory", transport.http.cut_off_for_memory}}}};
  if (transport.store_jobs != nullptr) {
    page["store_jobs"] = json_of(*transport.store_jobs);
    page["uploaded_bytes"] = transport.uploaded_bytes;
  }
  page["members"] = {{"ignored", transport.ignored_members}, {"unknown", transport.unknown_members}};
  for (const auto& [key, counts] : transport.keys) {
    nlohmann::ordered_json& of_key = page["keys"][key];
    of_key = {{"requests", counts.requests}, {"tokens", counts.tokens}, {"in_flight", counts.in_flight}};
    for (std::size_t limit = 0; limit < limit_names.size(); ++limit) {
      of_key["refused"][std::string(limit_names.at(limit))] = counts.refused.at(limit);
    }
  }
  page["key_reloads"] = {{"succeeded", transport.reloads.succeeded}, {"failed", transport.reloads.failed}};
  page["audit"] = {{"written", transport.audit.written}, {"failed", transport.audit.failed}};
  if (transport.cache) {
    page["response_cache"] = {{"hits", transport.cache->hits},       {"misses", transport.cache->misses},
                              {"evicted", transport.cache->evicted}, {"entries", transport.cache->entries},
                              {"bytes", transport.cache->bytes},     {"max_bytes", transport.cache->max_bytes}};
  }
  if (transport.spans) page["spans"] = {{"sent", transport.spans->sent}, {"dropped", transport.spans->dropped}};
  if (transport.grpc) {
    std::uint64_t started = 0, in_flight = 0;
    std::array<std::uint64_t, grpc_code_names.size()> ended{};
    for (const GrpcMethodCounts& method : transport.grpc->methods()) {
      in_flight += method.in_flight();
      started += method.started;
      for (std::size_t code = 0; code < ended.size(); ++code) ended.at(code) += method.ended.at(code);
    }
    page["grpc"] = {{"calls", in_flight}, {"started", started}, {"ended", nlohmann::ordered_json::object()}};
    for (std::size_t code = 0; code < ended.size(); ++code) {
      if (ended.at(code) != 0) page["grpc"]["ended"][std::string(grpc_code_names.at(code))] = ended.at(code);
    }
  }
  page["resident_bytes"] = resident_bytes();
  return page.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace gpux::server
