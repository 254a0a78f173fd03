#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "gpux/benchmark.h"
#include "gpux/runtime.h"

namespace gpux::cli {

/// A measurement and where it ran, as one JSON object: the keys of GPUX's benchmark, and more.
std::string benchmark_json(const BenchmarkResult& result, const Verdict& verdict);

/// Measures, with progress on a terminal, and prints a table or JSON; to `file` as JSON instead where it is not empty.
void print_benchmark(const Context& context, const Runtime& runtime, const NamedValues& inputs,
                     BenchmarkOptions options, const std::string& file);

/// Draws a share between 0 and 1 on stderr where that is a terminal; 1 ends it.
void draw_progress(const Context& context, double done, std::string_view what);

/// The rows of a table of results, one column each.
std::string benchmark_table(const std::vector<std::pair<std::string, BenchmarkResult>>& results);

}  // namespace gpux::cli
