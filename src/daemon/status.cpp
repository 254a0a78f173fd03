#include "daemon/status.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/home.h"
#include "daemon/vector_folder.h"

namespace gpux::daemon {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// Label values escape backslash, quote and line feed.
std::string label(const std::string& text) {
  std::string value;
  for (const char c : text) {
    if (c == '\\' || c == '"') value += '\\';
    if (c == '\n') {
      value += "\\n";
    } else {
      value += c;
    }
  }
  return value;
}

class Writer {
 public:
  void begin(const char* name, const char* type, const char* help) {
    name_ = name;
    out += fmt::format("# HELP gpux_daemon_{0} {1}\n# TYPE gpux_daemon_{0} {2}\n", name, help, type);
  }

  template <typename Number>
  void add(const std::string& labels, Number value) {
    out += fmt::format("gpux_daemon_{}{} {}\n", name_, labels.empty() ? "" : "{" + labels + "}", value);
  }

  std::string out;

 private:
  std::string name_;
};

}  // namespace

std::string to_json(const DaemonStatus& status) {
  Json sources = Json::array();
  for (const SourceStatus& source : status.sources) {
    sources.push_back({{"name", source.name},
                       {"kind", source.kind},
                       {"state", source.state},
                       {"waiting", source.waiting},
                       {"waiting_bytes", source.waiting_bytes},
                       {"taken", source.taken},
                       {"written", source.written},
                       {"known", source.known},
                       {"refused", source.refused},
                       {"lost", source.lost}});
  }
  const Json json{{"pid", ::getpid()},
                  {"version", version()},
                  {"state_file", status.state_file},
                  {"output", status.output},
                  {"sink", text_or_null(status.sink)},
                  {"started_at", utc_time(status.started)},
                  {"updated_at", utc_time(status.now)},
                  {"model", text_or_null(status.model)},
                  {"digest", status.digest.empty() ? Json(nullptr) : Json("sha256:" + status.digest)},
                  {"level", text_or_null(status.level)},
                  {"declared_level", text_or_null(status.declared_level)},
                  {"downgraded", status.is_downgraded},
                  {"provider", text_or_null(status.provider)},
                  {"verdict", text_or_null(status.verdict)},
                  {"waiting", status.waiting},
                  {"waiting_bytes", status.waiting_bytes},
                  {"taken", status.taken},
                  {"written", status.written},
                  {"known", status.known},
                  {"refused", status.refused},
                  {"lost", status.lost},
                  {"written_per_second", status.written_per_second},
                  {"embed_ms", status.embed_ms},
                  {"problems",
                   {{"sink", text_or_null(status.sink_problem)},
                    {"model", text_or_null(status.model_problem)},
                    {"state_file", text_or_null(status.state_file_problem)}}},
                  {"sources", std::move(sources)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

HealthAnswer health_of(const DaemonStatus& status) {
  Json problems = Json::object();
  const auto add = [&](const char* name, const std::string& problem) {
    if (!problem.empty()) problems[name] = problem;
  };
  add("sink", status.sink_problem);
  add("model", status.model_problem);
  add("state_file", status.state_file_problem);
  const bool fails = !status.sink_problem.empty() || !status.model_problem.empty();
  const Json json{{"status", fails ? "failing" : problems.empty() ? "ok" : "degraded"}, {"problems", problems}};
  return {fails ? 503 : 200, json.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

std::string prometheus_text(const DaemonStatus& status) {
  Writer writer;
  const auto of_sources = [&](const char* name, const char* type, const char* help, auto member) {
    writer.begin(name, type, help);
    for (const SourceStatus& source : status.sources) {
      writer.add(fmt::format("source=\"{}\",kind=\"{}\"", source.name, source.kind), source.*member);
    }
  };
  of_sources("taken_total", "counter", "Events taken.", &SourceStatus::taken);
  of_sources("written_total", "counter", "Events whose vectors were written.", &SourceStatus::written);
  of_sources("known_total", "counter", "Events whose vectors existed before.", &SourceStatus::known);
  of_sources("refused_total", "counter", "Events that were set aside or refused.", &SourceStatus::refused);
  of_sources("lost_total", "counter", "Signals that were lost.", &SourceStatus::lost);
  of_sources("waiting_events", "gauge", "Events that are not embedded yet.", &SourceStatus::waiting);
  of_sources("waiting_bytes", "gauge", "Bytes of files and journals that are not embedded yet.",
             &SourceStatus::waiting_bytes);
  writer.begin("watching", "gauge", "1 if the source is watched, 0 if it waits.");
  for (const SourceStatus& source : status.sources) {
    writer.add(fmt::format("source=\"{}\",kind=\"{}\"", source.name, source.kind), source.state == "watching" ? 1 : 0);
  }
  writer.begin("model_info", "gauge", "The model that makes vectors now.");
  if (!status.model.empty()) {
    writer.add(fmt::format("model=\"{}\",level=\"{}\",digest=\"sha256:{}\",provider=\"{}\"", label(status.model),
                           status.level, status.digest, label(status.provider)),
               1);
  }
  writer.begin("downgraded", "gauge", "1 while a lesser level catches up.");
  writer.add("", status.is_downgraded ? 1 : 0);
  writer.begin("problem", "gauge",
               "1 while nothing can be written, an event not be embedded, the state file not be read.");
  writer.add("of=\"sink\"", status.sink_problem.empty() ? 0 : 1);
  writer.add("of=\"model\"", status.model_problem.empty() ? 0 : 1);
  writer.add("of=\"state_file\"", status.state_file_problem.empty() ? 0 : 1);
  writer.begin("written_per_second", "gauge", "Of the last seconds.");
  writer.add("", status.written_per_second);
  writer.begin("embed_milliseconds", "gauge", "Of a run, lately.");
  writer.add("", status.embed_ms);
  return writer.out;
}

}  // namespace gpux::daemon
