#include "server/metrics/metrics.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "base/machine.h"
#include "base/spelling.h"
#include "provider/device_memory.h"
#include "server/models/workers.h"

namespace gpux::server {
namespace {

// Label values escape backslash, quote and line feed.
std::string label(std::string_view text) {
  std::string out;
  for (const char character : text) {
    if (character == '\\' || character == '"') out += '\\';
    if (character == '\n') {
      out += "\\n";
    } else {
      out += character;
    }
  }
  return out;
}

std::string labels_of(const ServedModel& model) {
  return fmt::format(R"(model="{}",version="{}")", label(model.name()), label(model.version()));
}

std::string labels_of(const GrpcMethodCounts& method) {
  return fmt::format(R"(grpc_type="{}",grpc_service="{}",grpc_method="{}")", method.type, method.service,
                     method.method);
}

std::uint64_t microseconds(const Histogram& histogram) {
  return static_cast<std::uint64_t>(histogram.sum().count() / 1000);
}

class Page {
 public:
  Page(std::span<const std::shared_ptr<ServedModel>> models, WithExemplars exemplars)
      : models_(models), exemplars_(exemplars) {}

  void family(std::string_view name, std::string_view kind, std::string_view help) {
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, kind, help);
  }

  void of_each(std::string_view name, std::string_view kind, std::string_view help,
               const std::function<std::uint64_t(ServedModel&)>& value) {
    family(name, kind, help);
    for (const auto& model : models_) text_ += fmt::format("{}{{{}}} {}\n", name, labels_of(*model), value(*model));
  }

  void histograms(std::string_view name, std::string_view help,
                  const std::function<const Histogram&(ServedModel&)>& histogram) {
    family(name, "histogram", help);
    for (const auto& model : models_) add(name, labels_of(*model), histogram(*model));
  }

  void routes(const RouteFigures& figures) {
    constexpr std::string_view name = "gpux_http_request_duration_seconds";
    family(name, "histogram", "From the request's arrival to its answer, or to the end of a streamed one");
    figures.for_each([&](std::string_view method, std::string_view route, int status, const Histogram& durations) {
      add(name, fmt::format(R"(method="{}",route="{}",status="{}")", method, route, status), durations);
    });
  }

  void add(std::string_view name, const std::string& labels, const Histogram& shown) {
    std::uint64_t below = 0;
    for (std::size_t i = 0; i <= Histogram::bounds.size(); ++i) {
      below += shown.in_bucket(i);
      const std::string bound = i < Histogram::bounds.size() ? fmt::format("{}", Histogram::bounds[i]) : "+Inf";
      text_ += fmt::format("{}_bucket{{{},le=\"{}\"}} {}{}\n", name, labels, bound, below, exemplar_of(shown, i));
    }
    text_ += fmt::format("{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n", name, labels, below,
                         std::chrono::duration<double>(shown.sum()).count());
  }

  [[nodiscard]] std::string exemplar_of(const Histogram& shown, std::size_t bucket) const {
    if (exemplars_ == WithExemplars::no) return {};
    const std::optional<Exemplar> exemplar = shown.exemplar(bucket);
    if (!exemplar) return {};
    return fmt::format(R"( # {{trace_id="{}",span_id="{}"}} {} {:.3f})", to_hexadecimal(exemplar->trace),
                       to_hexadecimal(exemplar->span), exemplar->seconds,
                       std::chrono::duration<double>(exemplar->time.time_since_epoch()).count());
  }

  // Of models that generate text.
  void texts() {
    std::vector<std::shared_ptr<ServedModel>> generators;
    for (const auto& model : models_) {
      if (model->engine() != nullptr) generators.push_back(model);
    }
    if (generators.empty()) return;
    Page page(generators, exemplars_);
    page.histograms(
        "gpux_time_to_first_token_seconds", "From the request's arrival to the first token of its text",
        [](ServedModel& model) -> const Histogram& { return model.statistics().generation.time_to_first_token; });
    page.histograms(
        "gpux_time_between_tokens_seconds", "Between two tokens of a text",
        [](ServedModel& model) -> const Histogram& { return model.statistics().generation.time_between_tokens; });
    using Statistics = generation::EngineStatistics;
    const auto of_engines = [&](std::string_view name, std::string_view kind, std::string_view help,
                                std::uint64_t (*value)(const Statistics& counts)) {
      page.of_each(name, kind, help,
                   [value](ServedModel& model) { return value(model.statistics().generation.engines.sum()); });
    };
    of_engines("gpux_running_sequences", "gauge", "Texts that are being generated",
               [](const Statistics& counts) -> std::uint64_t { return counts.running; });
    of_engines("gpux_waiting_sequences", "gauge", "Texts that wait for a slot",
               [](const Statistics& counts) -> std::uint64_t { return counts.waiting; });
    of_engines("gpux_sequence_slots", "gauge", "Texts that can be generated at the same time",
               [](const Statistics& counts) -> std::uint64_t { return counts.slots; });
    of_engines("gpux_kv_cache_bytes", "gauge", "Memory of keys and values, with those kept for later prompts",
               [](const Statistics& counts) { return counts.cache_bytes; });
    of_engines("gpux_kv_cache_max_bytes", "gauge", "Memory that keys and values may take",
               [](const Statistics& counts) { return counts.max_cache_bytes; });
    of_engines("gpux_prompt_tokens_total", "counter", "Tokens of prompts that the model computed",
               [](const Statistics& counts) { return counts.prompt_tokens; });
    of_engines("gpux_prefix_hit_tokens_total", "counter", "Tokens of prompts whose keys and values were in memory",
               [](const Statistics& counts) { return counts.reused_tokens; });
    of_engines("gpux_generated_tokens_total", "counter", "Tokens that were generated",
               [](const Statistics& counts) { return counts.generated_tokens; });
    of_engines("gpux_draft_tokens_total", "counter", "Tokens that were guessed and computed with the one before them",
               [](const Statistics& counts) { return counts.draft_tokens; });
    of_engines("gpux_accepted_draft_tokens_total", "counter", "Of the guessed tokens, those that the model chose",
               [](const Statistics& counts) { return counts.accepted_draft_tokens; });
    of_engines("gpux_prompt_cache_files", "gauge", "Files with keys and values of prompts that the model can use",
               [](const Statistics& counts) { return counts.files.files; });
    of_engines("gpux_prompt_cache_bytes", "gauge", "Bytes of these files",
               [](const Statistics& counts) { return counts.files.bytes; });
    of_engines("gpux_prompt_cache_hits_total", "counter", "Prompts that a file had more of than the memory",
               [](const Statistics& counts) { return counts.files.hits; });
    of_engines("gpux_prompt_cache_misses_total", "counter", "Prompts that no file had more of than the memory",
               [](const Statistics& counts) { return counts.files.misses; });
    of_engines("gpux_prompt_cache_tokens_total", "counter", "Tokens of prompts whose keys and values were in files",
               [](const Statistics& counts) { return counts.restored_tokens; });
    of_engines("gpux_prompt_cache_writes_total", "counter", "Files that were written",
               [](const Statistics& counts) { return counts.files.written_files; });
    of_engines("gpux_prompt_cache_skipped_writes_total", "counter",
               "Files that were not written, because others were on their way or the folder takes none",
               [](const Statistics& counts) { return counts.files.skipped_writes; });
    of_engines("gpux_draft_model_steps_total", "counter", "Runs of the draft model",
               [](const Statistics& counts) { return counts.draft_model_steps; });
    of_engines("gpux_draft_model_failures_total", "counter",
               "Draft models that failed, and are not used until the model is loaded again",
               [](const Statistics& counts) { return counts.draft_model_failures; });
    of_engines("gpux_preempted_sequences_total", "counter",
               "Texts that began anew for lack of memory, or for a turn of other requests",
               [](const Statistics& counts) { return counts.preempted; });
    page.single("gpux_kv_cache_limit_bytes", "gauge", "Memory that keys and values of all models may take together",
                generation::CacheBudget::of_process()->limit_bytes());
    text_ += page.text_;
  }

  // Rows of each run, in powers of two.
  void batch_sizes() {
    constexpr std::string_view name = "gpux_batch_rows";
    family(name, "histogram", "Rows that shared a run");
    for (const auto& model : models_) {
      const std::string labels = labels_of(*model);
      const std::map<std::int64_t, BatchStatistics> batches = model->statistics().batches();
      std::uint64_t runs = 0, rows = 0;
      auto next = batches.begin();
      for (std::int64_t bound = 1; bound <= 1024; bound *= 2) {
        for (; next != batches.end() && next->first <= bound; ++next) {
          runs += next->second.runs;
          rows += next->second.runs * static_cast<std::uint64_t>(next->first);
        }
        text_ += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, runs);
      }
      for (; next != batches.end(); ++next) {
        runs += next->second.runs;
        rows += next->second.runs * static_cast<std::uint64_t>(next->first);
      }
      text_ += fmt::format("{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n", name,
                           labels, runs, rows);
    }
  }

  void failures() {
    constexpr std::string_view name = "nv_inference_request_failure";
    family(name, "counter", "Requests that were not answered with results, by reason");
    for (const auto& model : models_) {
      const ModelStatistics& counts = model->statistics();
      const std::string labels = labels_of(*model);
      const auto line = [&](std::string_view reason, std::uint64_t value) {
        text_ += fmt::format("{}{{{},reason=\"{}\"}} {}\n", name, labels, reason, value);
      };
      line("REJECTED", counts.rejected);
      line("CANCELED", counts.cancelled);
      line("BACKEND", counts.failed);
      line("OTHER", counts.invalid + counts.expired);
    }
  }

  void providers() {
    family("gpux_model_provider_nodes", "gauge", "Nodes of the model's session on each execution provider");
    for (const auto& model : models_) {
      for (const ProviderAttempt& attempt : model->runtime().verdict().tried) {
        if (attempt.node_count == 0) continue;
        const std::string device = device_name(attempt);
        text_ += fmt::format("gpux_model_provider_nodes{{{},provider=\"{}\",device=\"{}\"}} {}\n", labels_of(*model),
                             label(attempt.id), label(device), attempt.node_count);
      }
    }
  }

  // Of models that run in worker processes.
  void workers() {
    const auto of_each_worker = [&](std::string_view name, std::string_view kind, std::string_view help,
                                    std::uint64_t (*value)(const WorkerStatus& status)) {
      bool is_first = true;
      for (const auto& model : models_) {
        std::size_t index = 0;
        for (const WorkerStatus& status : model->worker_processes()) {
          if (is_first) family(name, kind, help);
          is_first = false;
          text_ += fmt::format("{}{{{},worker=\"{}\"}} {}\n", name, labels_of(*model), index++, value(status));
        }
      }
    };
    of_each_worker(
        "gpux_worker_ready", "gauge", "Whether the worker process of the model runs it",
        [](const WorkerStatus& status) -> std::uint64_t { return status.state == WorkerStatus::State::ready ? 1 : 0; });
    of_each_worker("gpux_worker_process_id", "gauge", "Process id of the worker process; 0: there is none now",
                   [](const WorkerStatus& status) { return static_cast<std::uint64_t>(status.process_id); });
    of_each_worker("gpux_worker_restarts_total", "counter", "Worker processes that ended and were started again",
                   [](const WorkerStatus& status) { return status.restarts; });
    of_each_worker("gpux_worker_lost_runs_total", "counter", "Runs that a worker process had taken when it ended",
                   [](const WorkerStatus& status) { return status.lost_runs; });
    of_each_worker("gpux_worker_repeated_runs_total", "counter",
                   "Runs that a worker process had not taken when it ended, and that the next one got",
                   [](const WorkerStatus& status) { return status.repeated_runs; });
    of_each_worker("gpux_worker_resident_memory_bytes", "gauge", "Resident memory of the worker process",
                   [](const WorkerStatus& status) { return status.resident_bytes; });
  }

  // Of providers with a device of their own: a model may have a session on each.
  void devices() {
    std::map<std::string, std::uint64_t> sessions, memory, uses;
    std::optional<MemoryOfDevices> now;
    const auto label_device = [](std::string_view provider, const Device& device) {
      return fmt::format(R"(provider="{}",index="{}",device="{}")", label(provider), device.index, label(device.name));
    };
    for (const auto& model : models_) {
      for (const auto& session : model->workers().sessions) {
        for (const ProviderAttempt& attempt : session->verdict().tried) {
          if (attempt.outcome != ProviderAttempt::Outcome::active || !attempt.device) continue;
          const Device& device = *attempt.device;
          const std::string labels = label_device(attempt.id, device);
          ++sessions[fmt::format(R"({},{},vendor="{}",driver="{}",address="{}")", labels_of(*model), labels,
                                 label(device.vendor), label(device.driver), label(device.address))];
          if (device.memory_bytes != 0) memory[labels + R"(,kind="total")"] = device.memory_bytes;
          if (device.address.empty()) continue;
          if (!now) now = provider::read_device_memory(Machine::this_one());
          const auto known = now->find(device.address);
          if (known != now->end()) memory[labels + R"(,kind="free")"] = known->second.free;
        }
      }
      for (const DeviceUse& use : model->device_uses()) {
        uses[fmt::format("{},{}", labels_of(*model), label_device(use.provider, use.device))] = use.bytes;
      }
    }
    const auto write = [&](std::string_view name, std::string_view help, const auto& values) {
      if (values.empty()) return;
      family(name, "gauge", help);
      for (const auto& [labels, value] : values) text_ += fmt::format("{}{{{}}} {}\n", name, labels, value);
    };
    write("gpux_model_device_sessions", "Sessions of the model on each device", sessions);
    write("gpux_model_device_memory_bytes", "What the model has taken of a device's memory, or is expected to take",
          uses);
    write("gpux_device_memory_bytes", "Memory of a device that a model is on, and how much of it is free", memory);
  }

  // Of each session of a model: on a device of its own where there are several.
  void replicas() {
    std::string states, failures, runs;
    for (const auto& model : models_) {
      const std::vector<runtime::DeviceReport> reports = model->devices();
      const auto sessions = model->workers().devices();
      for (std::size_t index = 0; index < reports.size(); ++index) {
        const runtime::DeviceReport& report = reports[index];
        const Verdict& verdict = sessions[index]->verdict();
        const Device* device = device_of(verdict);
        const std::string labels =
            fmt::format(R"({},provider="{}",index="{}",device="{}")", labels_of(*model),
                        label(verdict.active.empty() ? "" : verdict.active.front()),
                        device == nullptr ? index : device->index, label(device == nullptr ? "" : device->name));
        for (const auto state : {runtime::DeviceState::in_service, runtime::DeviceState::suspected,
                                 runtime::DeviceState::checking, runtime::DeviceState::out}) {
          states += fmt::format("gpux_replica_state{{{},state=\"{}\"}} {}\n", labels, to_string(state),
                                report.state == state ? 1 : 0);
        }
        failures += fmt::format("gpux_replica_failures_total{{{}}} {}\n", labels, report.failures);
        runs += fmt::format("gpux_replica_runs_total{{{}}} {}\n", labels, report.runs);
      }
    }
    const auto write = [&](std::string_view name, std::string_view kind, std::string_view help,
                           const std::string& lines) {
      if (lines.empty()) return;
      family(name, kind, help);
      text_ += lines;
    };
    write("gpux_replica_state", "gauge", "1 for the state that a session of the model is in", states);
    write("gpux_replica_failures_total", "counter",
          "How often a session was taken out of service; of the only one, runs that its device failed", failures);
    write("gpux_replica_runs_total", "counter", "Runs of a session, also of probes", runs);
  }

  void single(std::string_view name, std::string_view kind, std::string_view help, std::uint64_t value) {
    family(name, kind, help);
    text_ += fmt::format("{} {}\n", name, value);
  }

  void members(const TransportCounts& transport) {
    constexpr std::string_view name = "gpux_ignored_members_total";
    family(name, "counter", "Members of requests that were accepted and changed no answer");
    for (const auto& [member, count] : transport.ignored_members) {
      text_ += fmt::format("{}{{member=\"{}\"}} {}\n", name, member, count);
    }
    single("gpux_unknown_members_total", "counter", "Members of requests that are not known and changed no answer",
           transport.unknown_members);
  }

  void spans(const SpanCounts& counts) {
    single("gpux_spans_sent_total", "counter", "Spans of traces that the receiver took", counts.sent);
    single("gpux_spans_dropped_total", "counter",
           "Spans of traces for which there was no room, or which the receiver did not take", counts.dropped);
  }

  void keys(const std::map<std::string, KeyCounts>& all) {
    if (all.empty()) return;
    const auto of_each_key = [&](std::string_view name, std::string_view kind, std::string_view help,
                                 std::uint64_t KeyCounts::*count) {
      family(name, kind, help);
      for (const auto& [key, counts] : all)
        text_ += fmt::format("{}{{key=\"{}\"}} {}\n", name, label(key), counts.*count);
    };
    of_each_key("gpux_key_requests_total", "counter", "Requests that use a model, by the name of their API key",
                &KeyCounts::requests);
    of_each_key("gpux_key_tokens_total", "counter", "Tokens that models read and generated for them",
                &KeyCounts::tokens);
    of_each_key("gpux_key_requests_in_flight", "gauge", "Such requests that are worked on", &KeyCounts::in_flight);
    constexpr std::string_view refused = "gpux_key_refused_total";
    family(refused, "counter", "Such requests that were refused, by the limit");
    for (const auto& [key, counts] : all) {
      for (std::size_t limit = 0; limit < limit_names.size(); ++limit) {
        text_ += fmt::format("{}{{key=\"{}\",limit=\"{}\"}} {}\n", refused, label(key), limit_names.at(limit),
                             counts.refused.at(limit));
      }
    }
  }

  // Of models with limits.
  void limits() {
    std::vector<std::pair<ServedModel*, std::vector<std::pair<std::string_view, std::uint64_t>>>> limited;
    for (const auto& model : models_) {
      if (auto given = given_limits(model->limits()); !given.empty())
        limited.emplace_back(model.get(), std::move(given));
    }
    if (limited.empty()) return;
    constexpr std::string_view limit_name = "gpux_model_limit", refused = "gpux_model_limit_refused_total";
    family(limit_name, "gauge", "What the operator lets the model take, by the limit");
    for (const auto& [model, given] : limited) {
      for (const auto& [name, value] : given)
        text_ += fmt::format("{}{{{},limit=\"{}\"}} {}\n", limit_name, labels_of(*model), name, value);
    }
    family(refused, "counter", "Requests that were refused by a limit of the model");
    for (const auto& [model, given] : limited) {
      const std::optional<KeyCounts> counts = model->limited_counts();
      for (std::size_t limit = 0; counts && limit < limit_names.size(); ++limit) {
        text_ += fmt::format("{}{{{},limit=\"{}\"}} {}\n", refused, labels_of(*model), limit_names.at(limit),
                             counts->refused.at(limit));
      }
    }
  }

  void access(const TransportCounts& transport) {
    constexpr std::string_view reloads = "gpux_key_reloads_total";
    family(reloads, "counter", "How often the files of keys and limits were read again");
    text_ += fmt::format("{0}{{result=\"succeeded\"}} {1}\n{0}{{result=\"failed\"}} {2}\n", reloads,
                         transport.reloads.succeeded, transport.reloads.failed);
    constexpr std::string_view audit = "gpux_audit_entries_total";
    family(audit, "counter", "Audit entries, and those that could not be written");
    text_ += fmt::format("{0}{{result=\"succeeded\"}} {1}\n{0}{{result=\"failed\"}} {2}\n", audit,
                         transport.audit.written, transport.audit.failed);
  }

  void cache(const ResponseCacheCounts& counts) {
    single("gpux_response_cache_hits_total", "counter", "Requests that were answered from the response cache",
           counts.hits);
    single("gpux_response_cache_misses_total", "counter", "Requests whose answer was not there", counts.misses);
    single("gpux_response_cache_evicted_total", "counter", "Answers that made room for others", counts.evicted);
    single("gpux_response_cache_entries", "gauge", "Answers in the response cache", counts.entries);
    single("gpux_response_cache_bytes", "gauge", "Memory of the response cache", counts.bytes);
    single("gpux_response_cache_max_bytes", "gauge", "Memory that it may take", counts.max_bytes);
  }

  void store_jobs(const StoreJobCounts& all, std::uint64_t uploaded_bytes) {
    constexpr std::string_view ended = "gpux_store_jobs_total", running = "gpux_store_jobs";
    family(ended, "counter", "Pulls, pushes and creations of models by requests that have ended, or were refused");
    for (std::size_t kind = 0; kind < all.size(); ++kind) {
      const JobCounts& counts = all.at(kind);
      for (const auto& [how, count] :
           {std::pair("succeeded", &counts.succeeded), std::pair("failed", &counts.failed),
            std::pair("cancelled", &counts.cancelled), std::pair("refused", &counts.refused)}) {
        text_ += fmt::format("{}{{kind=\"{}\",end=\"{}\"}} {}\n", ended, job_kind_names.at(kind), how, count->load());
      }
    }
    family(running, "gauge", "Pulls, pushes and creations of models by requests");
    for (std::size_t kind = 0; kind < all.size(); ++kind) {
      text_ += fmt::format("{}{{kind=\"{}\"}} {}\n", running, job_kind_names.at(kind), all.at(kind).running.load());
    }
    single("gpux_uploaded_bytes", "gauge", "Files that clients have sent for models to be created", uploaded_bytes);
  }

  void of_each_method(const GrpcCounts& counts, std::string_view name, std::string_view kind, std::string_view help,
                      const std::function<std::uint64_t(const GrpcMethodCounts&)>& value) {
    family(name, kind, help);
    for (const GrpcMethodCounts& method : counts.methods()) {
      text_ += fmt::format("{}{{{}}} {}\n", name, labels_of(method), value(method));
    }
  }

  // OK of every method, the other codes of those that ended with them.
  void ended_calls(const GrpcCounts& counts) {
    constexpr std::string_view name = "grpc_server_handled_total";
    family(name, "counter", "gRPC calls that have ended, by the status that the client got");
    for (const GrpcMethodCounts& method : counts.methods()) {
      for (std::size_t code = 0; code < grpc_code_names.size(); ++code) {
        const std::uint64_t ended = method.ended.at(code);
        if (code != 0 && ended == 0) continue;
        text_ +=
            fmt::format("{}{{{},grpc_code=\"{}\"}} {}\n", name, labels_of(method), grpc_code_names.at(code), ended);
      }
    }
  }

  void cut_off_answers(const http::Counters& counts) {
    constexpr std::string_view name = "gpux_http_cut_off_total";
    family(name, "counter", "Connections closed in the middle of an answer, by reason");
    for (const auto& [reason, count] :
         {std::pair("deadline", counts.cut_off_at_deadline), std::pair("slow", counts.cut_off_as_slow),
          std::pair("memory", counts.cut_off_for_memory)}) {
      text_ += fmt::format("{}{{reason=\"{}\"}} {}\n", name, reason, count);
    }
  }

  std::string text() && { return std::move(text_); }

 private:
  std::span<const std::shared_ptr<ServedModel>> models_;
  WithExemplars exemplars_;
  std::string text_;
};

}  // namespace

std::string device_name(const ProviderAttempt& attempt) {
  if (attempt.device) return attempt.device->name;
  return attempt.devices.empty() ? std::string() : attempt.devices.front().name;
}

std::string prometheus_text(std::span<const std::shared_ptr<ServedModel>> models, const TransportCounts& transport,
                            WithExemplars exemplars) {
  Page page(models, exemplars);
  page.of_each("nv_inference_request_success", "counter", "Requests answered with results",
               [](ServedModel& model) { return model.statistics().succeeded.load(); });
  page.failures();
  page.of_each("nv_inference_count", "counter", "Rows inferred: a batch of n counts n",
               [](ServedModel& model) { return model.statistics().rows.load(); });
  page.of_each("nv_inference_exec_count", "counter", "Runs of the model",
               [](ServedModel& model) { return model.statistics().runs.load(); });
  page.of_each("nv_inference_pending_request_count", "gauge", "Requests waiting in the queue",
               [](ServedModel& model) { return model.counts().waiting; });
  page.of_each("gpux_running_request_count", "gauge", "Requests in runs",
               [](ServedModel& model) { return model.counts().running; });
  page.of_each("gpux_overdue_run_count", "gauge", "Runs that nobody waits for any more and that have not returned",
               [](ServedModel& model) { return model.counts().overdue_runs; });
  page.of_each("gpux_retried_batch_count", "counter", "Batches that failed and were run request by request",
               [](ServedModel& model) { return model.counts().retried; });
  page.of_each("gpux_moved_requests_total", "counter", "Requests whose device failed and that were run on another one",
               [](ServedModel& model) { return model.counts().moved; });
  page.of_each("nv_inference_request_duration_us", "counter", "Time from arrival to answer, summed",
               [](ServedModel& model) { return microseconds(model.statistics().total); });
  page.of_each("nv_inference_queue_duration_us", "counter", "Time in the queue, summed",
               [](ServedModel& model) { return microseconds(model.statistics().queue); });
  page.of_each("nv_inference_compute_input_duration_us", "counter", "Time joining inputs, summed",
               [](ServedModel& model) { return microseconds(model.statistics().input); });
  page.of_each("nv_inference_compute_infer_duration_us", "counter", "Time in the model, summed",
               [](ServedModel& model) { return microseconds(model.statistics().compute); });
  page.of_each("nv_inference_compute_output_duration_us", "counter", "Time cutting results apart, summed",
               [](ServedModel& model) { return microseconds(model.statistics().output); });
  page.histograms("gpux_request_duration_seconds", "From arrival to answer",
                  [](ServedModel& model) -> const Histogram& { return model.statistics().total; });
  page.histograms("gpux_queue_duration_seconds", "In the queue",
                  [](ServedModel& model) -> const Histogram& { return model.statistics().queue; });
  page.histograms("gpux_compute_duration_seconds", "In the model",
                  [](ServedModel& model) -> const Histogram& { return model.statistics().compute; });
  page.texts();
  page.batch_sizes();
  page.providers();
  page.workers();
  page.devices();
  page.replicas();
  page.single("gpux_http_connections", "gauge", "Open connections", transport.http.connections_open);
  page.single("gpux_request_memory_bytes", "gauge", "Memory budget in use by requests and answers",
              transport.http.held_bytes);
  page.single("gpux_http_requests_total", "counter", "HTTP requests", transport.http.requests);
  page.single("gpux_http_refused_total", "counter", "HTTP requests refused before they reached a model",
              transport.http.requests_refused);
  if (transport.routes != nullptr) page.routes(*transport.routes);
  page.cut_off_answers(transport.http);
  page.members(transport);
  page.limits();
  page.keys(transport.keys);
  page.access(transport);
  if (transport.cache) page.cache(*transport.cache);
  if (transport.spans) page.spans(*transport.spans);
  if (transport.store_jobs != nullptr) page.store_jobs(*transport.store_jobs, transport.uploaded_bytes);
  if (transport.grpc) {
    const GrpcCounts& grpc = *transport.grpc;
    // Before those that have started, so that no page shows more ends than starts.
    page.ended_calls(grpc);
    page.of_each_method(grpc, "grpc_server_started_total", "counter", "gRPC calls that have begun",
                        [](const GrpcMethodCounts& method) { return method.started.load(); });
    page.of_each_method(grpc, "grpc_server_msg_received_total", "counter", "Messages of gRPC clients",
                        [](const GrpcMethodCounts& method) { return method.received.load(); });
    page.of_each_method(grpc, "grpc_server_msg_sent_total", "counter", "Messages that gRPC clients took",
                        [](const GrpcMethodCounts& method) { return method.sent.load(); });
    page.of_each_method(grpc, "gpux_grpc_received_bytes_total", "counter", "Bytes of the messages received, as sent",
                        [](const GrpcMethodCounts& method) { return method.received_bytes.load(); });
    page.of_each_method(grpc, "gpux_grpc_sent_bytes_total", "counter", "Bytes of the messages sent",
                        [](const GrpcMethodCounts& method) { return method.sent_bytes.load(); });
    page.of_each_method(grpc, "gpux_grpc_calls", "gauge", "gRPC calls in flight",
                        [](const GrpcMethodCounts& method) { return method.in_flight(); });
  }
  page.single("process_resident_memory_bytes", "gauge", "Resident memory", resident_bytes());
  return std::move(page).text();
}

}  // namespace gpux::server
