#include "cli/bench_output.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "base/files.h"
#include "base/machine.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "base/standard_streams.h"
#include "cli/flag_names.h"
#include "cli/table.h"
#include "generation/product_rate.h"
#include "generation/read_rate.h"
#include "gpux/error.h"
#include "onnx/block_products.h"
#include "runtime/scheduling/batch.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

// Rows of the first axis; 0 where it is known to be no batch.
std::uint64_t batch_of(const Runtime& runtime, const NamedValues& inputs) {
  using Source = RunSharing::Source;
  if (inputs.empty() || !runtime::signature_permits_sharing(runtime.info().signature)) return 0;
  const RunSharing known = runtime.run_sharing({.requests = 1, .sizes = {}});
  if (!known.shared && (known.source == Source::setting || known.source == Source::trial)) return 0;
  const Tensor* first = inputs.front().second.tensor();
  return first == nullptr || first->shape().empty() ? 0 : static_cast<std::uint64_t>(first->shape().front());
}

std::string heading(const Json& result) {
  return result.value("provider", std::string());
}

std::string users_text(std::size_t users) {
  return fmt::format("{} {}", users, users == 1 ? "user" : "users");
}

// Those of several numbers of users are columns of their own.
struct Column {
  std::string title;
  const Json* result;
};

std::vector<Column> columns_of(const std::vector<Json>& results) {
  std::vector<Column> columns;
  for (const Json& result : results) {
    const auto loads = result.find("loads");
    if (loads == result.end()) {
      columns.push_back({heading(result), &result});
      continue;
    }
    for (const Json& load : *loads) {
      columns.push_back({fmt::format("{}, {}", heading(load), users_text(load.at("users").get<std::size_t>())), &load});
    }
  }
  return columns;
}

// A provider that did not run has a reason in place of what ran in its place.
std::string where_it_ran(const Json& result) {
  if (const auto error = result.find("error"); error != result.end()) return error->value("reason", std::string("-"));
  return join(result.at("verdict").at("active").get<std::vector<std::string>>());
}

std::string cell(const Json& result, const char* key, std::string (*written)(const Json& value)) {
  const auto found = result.find(key);
  return found == result.end() || found->is_null() ? "-" : written(*found);
}

std::string milliseconds(const Json& value) {
  return fmt::format("{:.3f} ms", value.get<double>());
}

std::string per_second(const Json& value) {
  return fmt::format("{:.1f}/s", value.get<double>());
}

std::string tokens_per_second(const Json& value) {
  return fmt::format("{:.1f} tokens/s", value.get<double>());
}

std::string count(const Json& value) {
  return std::to_string(value.get<std::uint64_t>());
}

std::string bytes(const Json& value) {
  return format_bytes(value.get<std::uint64_t>());
}

std::string bytes_per_second(const Json& value) {
  return fmt::format("{:.1f} GB/s", value.get<double>() / 1e9);
}

std::string percent(const Json& value) {
  return fmt::format("{:.0f} %", 100 * value.get<double>());
}

std::string benchmark_table(const std::vector<Json>& results) {
  struct Row {
    const char* title;
    const char* key;
    std::string (*written)(const Json& value);
  };

  static constexpr Row rows[] = {{"prompt", "prompt_tokens_per_second", tokens_per_second},
                                 {"generate", "generate_tokens_per_second", tokens_per_second},
                                 {"first token", "first_token_ms", milliseconds},
                                 {"token gap, median", "token_gap_median_ms", milliseconds},
                                 {"token gap, p99", "token_gap_p99_ms", milliseconds},
                                 {"token gap, max", "token_gap_max_ms", milliseconds},
                                 {"keys and values", "cache_bytes", bytes},
                                 {"read for a step", "step_bytes", bytes},
                                 {"memory gives", "read_bytes_per_second", bytes_per_second},
                                 {"of it, used", "share_of_reads", percent},
                                 {"of the products, prompt", "prompt_share_of_products", percent},
                                 {"of the products, text", "share_of_products", percent},
                                 {"guessed", "draft_tokens", count},
                                 {"of it, right", "accepted_draft_tokens", count},
                                 {"mean", "mean_time_ms", milliseconds},
                                 {"std", "std_time_ms", milliseconds},
                                 {"min", "min_time_ms", milliseconds},
                                 {"median", "median_time_ms", milliseconds},
                                 {"p90", "p90_time_ms", milliseconds},
                                 {"p95", "p95_time_ms", milliseconds},
                                 {"p99", "p99_time_ms", milliseconds},
                                 {"max", "max_time_ms", milliseconds},
                                 {"runs", "throughput_fps", per_second},
                                 {"items", "items_per_second", per_second},
                                 {"runs measured", "runs", count},
                                 {"first run", "first_run_ms", milliseconds},
                                 {"load", "load_ms", milliseconds},
                                 {"peak memory", "peak_memory_bytes", bytes}};
  Table table;
  table.head = {"asked for"};
  std::vector<std::string> places{"ran on"};
  const std::vector<Column> columns = columns_of(results);
  for (const auto& [title, result] : columns) {
    table.head.push_back(title);
    places.push_back(where_it_ran(*result));
  }
  table.rows.push_back(std::move(places));
  for (const Row& row : rows) {
    std::vector<std::string> cells{row.title};
    for (const Column& column : columns) cells.push_back(cell(*column.result, row.key, row.written));
    if (std::any_of(cells.begin() + 1, cells.end(), [](const std::string& text) { return text != "-"; })) {
      table.rows.push_back(std::move(cells));
    }
  }
  std::string text = table.text();
  for (const Json& result : results) {
    if (result.contains("error")) text += "\n" + failure_line(result);
  }
  return text;
}

// Of weights in blocks, of which the products are those of bytes. None where the file cannot be read again.
onnx::BlockProducts products_of(const generation::Engine& engine) {
  try {
    const MappedFile file(engine.runtime().info().path);
    return onnx::block_products(file.text(), static_cast<std::int64_t>(engine.vocabulary_size()));
  } catch (const std::exception&) {
    return {};
  }
}

void print(const Context& context, const Json& json, const std::vector<Json>& results, const std::string& file) {
  if (!file.empty()) {
    write_file_atomically(file, json.dump() + "\n");
    say(context, fmt::format("wrote {}", file));
  } else if (context.wants_json()) {
    print_data(json.dump());
  } else {
    print_data(benchmark_table(results));
  }
}

}  // namespace

std::string failure_line(const Json& result) {
  const Json& error = result.at("error");
  const std::string message = error.at("message");
  return error.contains("reason") ? message : fmt::format("{} failed: {}", heading(result), message);
}

Json benchmark_json(const BenchmarkResult& result, const Verdict& verdict, std::uint64_t batch) {
  Json json;
  json["provider"] = verdict.requested;
  json["mean_time_ms"] = result.mean_ms;
  json["std_time_ms"] = result.std_ms;
  json["min_time_ms"] = result.min_ms;
  json["max_time_ms"] = result.max_ms;
  json["median_time_ms"] = result.median_ms;
  json["p90_time_ms"] = result.p90_ms;
  json["p95_time_ms"] = result.p95_ms;
  json["p99_time_ms"] = result.p99_ms;
  json["throughput_fps"] = result.throughput_per_second;
  if (batch != 0) {
    json["batch"] = batch;
    json["items_per_second"] = result.throughput_per_second * static_cast<double>(batch);
  }
  json["runs"] = result.runs;
  json["warmup_runs"] = result.warmup_runs;
  json["first_run_ms"] = result.first_run_ms;
  json["load_ms"] = result.load_ms;
  json["peak_memory_bytes"] = result.peak_memory_bytes;
  json["verdict"] = Json::parse(json_text_of(verdict));
  return json;
}

void draw_progress(const Context& context, double done, std::string_view what) {
  if (context.quiet || ::isatty(STDERR_FILENO) == 0) return;
  constexpr int width = 30;
  const int filled = static_cast<int>(std::min(1.0, done) * width);
  write_to_standard_error(fmt::format("\r{} [{}{}] {:3.0f} %{}", what, std::string(filled, '#'),
                                      std::string(width - filled, ' '), 100 * std::min(1.0, done),
                                      done >= 1 ? "\r\033[K" : ""));
}

void print_benchmark(const Context& context, const Runtime& runtime, const NamedValues& inputs,
                     BenchmarkOptions options, const std::string& file, const Json& more) {
  options.progress = [&](double done) { draw_progress(context, done, "measuring"); };
  const BenchmarkResult result = runtime.benchmark(inputs, options);
  say(context, line_of(runtime.verdict()));
  Json json = benchmark_json(result, runtime.verdict(), batch_of(runtime, inputs));
  json.update(more);
  print(context, json, {json}, file);
}

void print_generation_benchmark(const Context& context, generation::Engine& engine, generation::MeasuredLoad load,
                                const std::vector<std::size_t>& users, unsigned threads, const std::string& file,
                                const Json& more) {
  struct Measured {
    generation::GenerationFigures figures;
    std::uint64_t peak_bytes;
    generation::EngineStatistics counts;  // so far
  };

  std::vector<Measured> all;
  for (const std::size_t count : users) {
    load.users = count;
    load.progress = [&](double done) {
      draw_progress(context, (static_cast<double>(all.size()) + done) / static_cast<double>(users.size()), "measuring");
    };
    const generation::GenerationFigures figures = generation::measure(engine, load);
    all.push_back({figures, peak_resident_bytes(), engine.statistics()});
  }
  // Takes memory itself, which is not the model's.
  const Verdict& verdict = engine.runtime().verdict();
  say(context, line_of(engine.verdict()));
  // A step with guesses gives several tokens.
  const bool has_draft = engine.draft_runtime() != nullptr;
  const onnx::BlockProducts products = products_of(engine);
  const double product_rate = products == onnx::BlockProducts{} ? 0 : generation::byte_product_rate(threads);
  std::vector<Json> loads;
  for (std::size_t i = 0; i < users.size(); ++i) {
    const auto& [figures, peak_bytes, counts] = all[i];
    const auto count = static_cast<double>(users[i]);
    const std::uint64_t step_bytes = engine.runtime().info().total_bytes() +
                                     engine.memory_needed(users[i] * (load.prompt_tokens + load.generate_tokens / 2));
    const double read = figures.generate_tokens_per_second / count * static_cast<double>(step_bytes);
    // Other work on the machine may slow down this measurement, and not the steps.
    const double rate = std::max(generation::read_rate(threads, step_bytes), read), share = read / rate;
    const auto product_share = [&](double tokens_a_second, std::uint64_t own) {
      return product_rate == 0 ? 0 : std::min(1.0, tokens_a_second * static_cast<double>(own) / product_rate);
    };
    const double text_share = product_share(figures.generate_tokens_per_second, products.layers + products.head);
    const std::string limit = generation::limit_line(share, text_share, users[i]);
    if (!has_draft) say(context, users.size() == 1 ? limit : fmt::format("{}: {}", users_text(users[i]), limit));
    loads.push_back(
        {{"provider", verdict.requested},
         {"prompt_tokens", load.prompt_tokens},
         {"generate_tokens", load.generate_tokens},
         {"users", users[i]},
         {"prompt_tokens_per_second", figures.prompt_tokens_per_second},
         {"generate_tokens_per_second", figures.generate_tokens_per_second},
         {"first_token_ms", figures.first_token_ms},
         {"token_gap_median_ms", figures.token_gap_median_ms},
         {"token_gap_p99_ms", figures.token_gap_p99_ms},
         {"token_gap_max_ms", figures.token_gap_max_ms},
         {"cache_bytes", figures.cache_bytes},
         {"step_bytes", has_draft ? Json() : Json(step_bytes)},
         {"read_bytes_per_second", has_draft ? Json() : Json(rate)},
         {"share_of_reads", has_draft ? Json() : Json(share)},
         {"byte_products_per_second", product_rate == 0 ? Json() : Json(product_rate)},
         {"prompt_share_of_products",
          product_rate == 0 ? Json() : Json(product_share(figures.prompt_tokens_per_second, products.layers))},
         {"share_of_products", product_rate == 0 || has_draft ? Json() : Json(text_share)},
         {"runs", figures.rounds},
         {"load_ms", engine.runtime().load_time().count()},
         {"peak_memory_bytes", peak_bytes},
         {"verdict", Json::parse(json_text_of(engine.verdict()))}});
    if (has_draft) {
      const generation::EngineStatistics before = i == 0 ? generation::EngineStatistics{} : all[i - 1].counts;
      loads.back()["draft_tokens"] = counts.draft_tokens - before.draft_tokens;
      loads.back()["accepted_draft_tokens"] = counts.accepted_draft_tokens - before.accepted_draft_tokens;
    }
  }
  Json json = loads.front();
  if (loads.size() > 1) json["loads"] = loads;
  json.update(more);
  print(context, json, {json}, file);
}

Json failed_result(const std::string& provider, const Error& error) {
  return {
      {"provider", provider},
      {"error", {{"code", to_string(error.code())}, {"exit_code", error.exit_code()}, {"message", message_of(error)}}}};
}

void print_not_run(const Context& context, const Verdict& verdict, const provider::Absence& absence,
                   const std::string& file) {
  const Error error(ErrorCode::provider_unavailable, to_line(absence));
  say(context, message_of(error));
  Json json = failed_result(verdict.requested, error);
  json["error"]["reason"] = absence.reason;
  json["verdict"] = Json::parse(json_text_of(verdict));
  print(context, json, {json}, file);
}

void print_benchmark(const Context& context, const Runtime& runtime, const MadeInputs& inputs,
                     const BenchmarkOptions& options, const std::string& file) {
  try {
    print_benchmark(context, runtime, inputs.values, options, file);
  } catch (const Error& error) {
    if (const auto named = naming_assumed_sizes(error, inputs)) throw Error(*named);
    throw;
  }
}

void print_benchmarks(const Context& context, const std::vector<Json>& results, const std::string& file) {
  print(context, Json{{"results", results}}, results, file);
}

}  // namespace gpux::cli
