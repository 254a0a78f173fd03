#include <chrono>

#include <fmt/format.h>

#include "server/protocols/open_inference/messages.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

void append_duration(std::string& out, std::string_view name, const Histogram& histogram) {
  out += fmt::format(R"("{}":{{"count":{},"ns":{}}})", name, histogram.count(), histogram.sum().count());
}

}  // namespace

std::int64_t epoch_milliseconds(std::int64_t steady_nanoseconds) {
  if (steady_nanoseconds == 0) return 0;
  const auto ago = std::chrono::steady_clock::now() -
                   std::chrono::steady_clock::time_point(std::chrono::nanoseconds(steady_nanoseconds));
  const auto then = std::chrono::system_clock::now() - ago;
  return std::chrono::duration_cast<std::chrono::milliseconds>(then.time_since_epoch()).count();
}

void append_statistics(std::string& out, const ModelDescription& model) {
  const ModelStatistics& counts = *model.statistics;
  out += R"({"name":)";
  append_json_string(out, model.name);
  out += R"(,"version":)";
  append_json_string(out, model.version);
  out += fmt::format(
      R"(,"last_inference":{},"inference_count":{},"execution_count":{},"inference_stats":{{"success":{{"count":{},"ns":{}}},"fail":{{"count":{},"ns":{}}},)",
      epoch_milliseconds(counts.last_success), counts.rows.load(), counts.runs.load(), counts.succeeded.load(),
      counts.total.sum().count(), counts.failures(), counts.failure.sum().count());
  append_duration(out, "queue", counts.queue);
  out += ',';
  append_duration(out, "compute_input", counts.input);
  out += ',';
  append_duration(out, "compute_infer", counts.compute);
  out += ',';
  append_duration(out, "compute_output", counts.output);
  out += R"(},"batch_stats":[)";
  bool first = true;
  for (const auto& [rows, batch] : counts.batches()) {
    out += fmt::format(
        R"({}{{"batch_size":{},"compute_input":{{"count":{},"ns":{}}},"compute_infer":{{"count":{},"ns":{}}},"compute_output":{{"count":{},"ns":{}}}}})",
        first ? "" : ",", rows, batch.runs, batch.input.count(), batch.runs, batch.compute.count(), batch.runs,
        batch.output.count());
    first = false;
  }
  out += "]}";
}

}  // namespace gpux::server
