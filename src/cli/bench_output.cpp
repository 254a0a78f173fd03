#include "cli/bench_output.h"

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/files.h"
#include "base/memory_size.h"
#include "cli/table.h"

namespace gpux::cli {

std::string benchmark_json(const BenchmarkResult& result, const Verdict& verdict) {
  nlohmann::ordered_json json;
  json["mean_time_ms"] = result.mean_ms;
  json["std_time_ms"] = result.std_ms;
  json["min_time_ms"] = result.min_ms;
  json["max_time_ms"] = result.max_ms;
  json["median_time_ms"] = result.median_ms;
  json["p90_time_ms"] = result.p90_ms;
  json["p95_time_ms"] = result.p95_ms;
  json["p99_time_ms"] = result.p99_ms;
  json["throughput_fps"] = result.throughput_per_second;
  json["runs"] = result.runs;
  json["warmup_runs"] = result.warmup_runs;
  json["first_run_ms"] = result.first_run_ms;
  json["load_ms"] = result.load_ms;
  json["peak_memory_bytes"] = result.peak_memory_bytes;
  json["verdict"] = nlohmann::ordered_json::parse(to_json(verdict));
  return json.dump();
}

void draw_progress(const Context& context, double done, std::string_view what) {
  if (context.quiet || ::isatty(STDERR_FILENO) == 0) return;
  constexpr int width = 30;
  const int filled = static_cast<int>(std::min(1.0, done) * width);
  fmt::print(stderr, "\r{} [{}{}] {:3.0f} %", what, std::string(filled, '#'), std::string(width - filled, ' '),
             100 * std::min(1.0, done));
  if (done >= 1) fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

std::string benchmark_table(const std::vector<std::pair<std::string, BenchmarkResult>>& results) {
  Table table;
  table.head = {""};
  for (const auto& [name, result] : results) table.head.push_back(name);
  const auto row = [&](const char* name, auto&& cell) {
    std::vector<std::string> cells{name};
    for (const auto& [title, result] : results) cells.push_back(cell(result));
    table.rows.push_back(std::move(cells));
  };
  const auto time_row = [&](const char* name, double BenchmarkResult::*field) {
    row(name, [&](const BenchmarkResult& result) { return fmt::format("{:.3f} ms", result.*field); });
  };
  time_row("mean", &BenchmarkResult::mean_ms);
  time_row("std", &BenchmarkResult::std_ms);
  time_row("min", &BenchmarkResult::min_ms);
  time_row("median", &BenchmarkResult::median_ms);
  time_row("p90", &BenchmarkResult::p90_ms);
  time_row("p95", &BenchmarkResult::p95_ms);
  time_row("p99", &BenchmarkResult::p99_ms);
  time_row("max", &BenchmarkResult::max_ms);
  row("throughput",
      [](const BenchmarkResult& result) { return fmt::format("{:.1f}/s", result.throughput_per_second); });
  row("runs", [](const BenchmarkResult& result) { return std::to_string(result.runs); });
  time_row("first run", &BenchmarkResult::first_run_ms);
  time_row("load", &BenchmarkResult::load_ms);
  row("peak memory", [](const BenchmarkResult& result) { return format_bytes(result.peak_memory_bytes); });
  return table.text();
}

void print_benchmark(const Context& context, const Runtime& runtime, const NamedValues& inputs,
                     BenchmarkOptions options, const std::string& file) {
  options.progress = [&](double done) { draw_progress(context, done, "measuring"); };
  const BenchmarkResult result = runtime.benchmark(inputs, options);
  say(context, to_line(runtime.verdict()));
  if (!file.empty()) {
    write_file_atomically(file, benchmark_json(result, runtime.verdict()) + "\n");
    say(context, fmt::format("wrote {}", file));
  } else if (context.wants_json()) {
    print_data(benchmark_json(result, runtime.verdict()));
  } else {
    print_data(benchmark_table({{runtime.verdict().active.empty() ? "" : runtime.verdict().active.front(), result}}));
  }
}

}  // namespace gpux::cli
