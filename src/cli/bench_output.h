#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "generation/measure.h"
#include "gpux/benchmark.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "model/made_inputs.h"
#include "provider/absence.h"

namespace gpux::cli {

/// Range of --runs and --warmup: each measured run's time is kept.
inline CLI::Range run_counts() {
  return {std::uint64_t{0}, std::uint64_t{1'000'000'000}};
}

/// A measurement and where it ran: the keys of GPUX's benchmark, and more. `batch`: items a run, 0 where not known.
nlohmann::ordered_json benchmark_json(const BenchmarkResult& result, const Verdict& verdict, std::uint64_t batch);

/// Measures once, with progress on a terminal, and prints a table or JSON; to `file` as JSON instead where it is not
/// empty. `more` are members of the JSON beside.
void print_benchmark(const Context& context, const Runtime& runtime, const NamedValues& inputs,
                     BenchmarkOptions options, const std::string& file,
                     const nlohmann::ordered_json& more = nlohmann::ordered_json::object());

/// Measures with synthetic inputs: errors name the sizes that were assumed.
void print_benchmark(const Context& context, const Runtime& runtime, const MadeInputs& inputs,
                     const BenchmarkOptions& options, const std::string& file);

/// Measures prompts and texts of a model that generates text, with each number of users, and how fast `threads` threads
/// read what a step reads, and prints the figures likewise. As JSON those of several numbers of users are in `loads`,
/// and those of the first one beside it. `more` are members of the JSON beside.
void print_generation_benchmark(const Context& context, generation::Engine& engine, generation::MeasuredLoad load,
                                const std::vector<std::size_t>& users, unsigned threads, const std::string& file,
                                const nlohmann::ordered_json& more = nlohmann::ordered_json::object());

/// The result of a provider that was not measured: {"provider", "error": {"code", "exit_code", "message"}}; with a
/// member "reason" where the provider did not run.
nlohmann::ordered_json failed_result(const std::string& provider, const Error& error);

/// Why there are no figures: one line.
std::string failure_line(const nlohmann::ordered_json& result);

/// Prints likewise that the provider of the request did not run, and why; there are no figures.
void print_not_run(const Context& context, const Verdict& verdict, const provider::Absence& absence,
                   const std::string& file);

/// Prints results side by side likewise. Each is what benchmark_json() or failed_result() gives.
void print_benchmarks(const Context& context, const std::vector<nlohmann::ordered_json>& results,
                      const std::string& file);

/// Draws a share between 0 and 1 on stderr where that is a terminal; 1 ends it.
void draw_progress(const Context& context, double done, std::string_view what);

}  // namespace gpux::cli
