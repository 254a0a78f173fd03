// Runs gpux's loop and a plain one over ONNX Runtime alternately, in one process, with the same session options.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/machine.h"
#include "gpux/runtime.h"
#include "plain/models.h"
#include "plain/plain_loop.h"

namespace gpux::bench {
namespace {

struct Settings {
  std::vector<std::string> models;
  double seconds = 10;
  double limit = 1.02;
  unsigned threads = usable_processors(Machine::this_one());
};

struct Comparison {
  double gpux_us = 0;
  double plain_us = 0;
  std::size_t runs = 0;

  [[nodiscard]] double ratio() const { return gpux_us / plain_us; }
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

float run_gpux(const Runtime& runtime, const NamedValues& inputs) {
  const NamedValues outputs = runtime.infer(inputs);
  const auto values = outputs.front().second.tensor()->as<float>();
  return values.front() + values.back();
}

template <typename Work>
float timed(Work&& work, std::vector<double>& microseconds) {
  const auto start = std::chrono::steady_clock::now();
  const float result = work();
  microseconds.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  return result;
}

/// One pair of sessions, by turns of about a millisecond, so that each loop finds the caches as it left them itself.
/// Who comes first changes each round.
Comparison compare_once(const std::filesystem::path& model, const Settings& settings, double seconds,
                        bool plain_is_made_first) {
  LoadOptions options;
  options.provider = "cpu";
  options.intra_threads = settings.threads;
  auto made = std::make_unique<Runtime>(model, options);
  const NamedValues inputs = synthetic_inputs(made->info().signature);
  PlainLoop plain(made->verdict().runtime_path, model, settings.threads, inputs);
  if (plain_is_made_first) {
    made.reset();
    made = std::make_unique<Runtime>(model, options);
  }
  const Runtime& runtime = *made;

  std::vector<double> gpux_us;
  std::vector<double> plain_us;
  std::size_t runs_in_a_turn = 1;
  const auto round = [&](bool gpux_first) {
    float ours = 0;
    float theirs = 0;
    const auto our_turn = [&] {
      for (std::size_t i = 0; i < runs_in_a_turn; ++i) ours = timed([&] { return run_gpux(runtime, inputs); }, gpux_us);
    };
    if (gpux_first) our_turn();
    for (std::size_t i = 0; i < runs_in_a_turn; ++i) theirs = timed([&] { return plain.run(); }, plain_us);
    if (!gpux_first) our_turn();
    if (ours != theirs) throw std::runtime_error(fmt::format("gpux says {}, ONNX Runtime {}", ours, theirs));
  };
  for (int warm_up = 0; warm_up < 10; ++warm_up) round(warm_up % 2 == 0);
  runs_in_a_turn = static_cast<std::size_t>(std::clamp(1000 / median(plain_us), 1.0, 100.0));
  gpux_us.clear();
  plain_us.clear();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end || gpux_us.size() < 4) round(gpux_us.size() % 2 == 0);
  return {median(gpux_us), median(plain_us), gpux_us.size()};
}

/// Several pairs, of which the one with the middle ratio counts: where a session's memory comes to lie matters more
/// than what is measured here. So does which of the two was made first, and that changes from pair to pair.
Comparison compare(const std::filesystem::path& model, const Settings& settings) {
  constexpr int pairs = 21;
  std::vector<Comparison> comparisons;
  comparisons.reserve(pairs);
  for (int pair = 0; pair < pairs; ++pair)
    comparisons.push_back(compare_once(model, settings, settings.seconds / pairs, pair % 2 != 0));
  std::ranges::sort(comparisons, {}, &Comparison::ratio);
  return comparisons[pairs / 2];
}

/// The models made here, in a folder that goes with this object.
class MadeModels {
 public:
  MadeModels() : folder_(std::filesystem::temp_directory_path() / fmt::format("gpux-overhead-{}", getpid())) {
    std::filesystem::create_directories(folder_);
    write_small_model(folder_ / "small.onnx");
    write_resnet50(folder_ / "resnet50.onnx");
  }

  ~MadeModels() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  MadeModels(const MadeModels&) = delete;
  MadeModels& operator=(const MadeModels&) = delete;

  [[nodiscard]] std::vector<std::string> files() const {
    return {(folder_ / "small.onnx").string(), (folder_ / "resnet50.onnx").string()};
  }

 private:
  std::filesystem::path folder_;
};

/// Prints one JSON document; whether every ratio is within the limit.
bool compare_all(const std::vector<std::string>& models, const Settings& settings) {
  bool within = true;
  fmt::print("{{\"threads\": {}, \"limit\": {}, \"models\": [", settings.threads, settings.limit);
  const char* separator = "";
  for (const std::string& model : models) {
    const Comparison result = compare(model, settings);
    within = within && result.ratio() <= settings.limit;
    fmt::print(
        "{}\n  {{\"model\": \"{}\", \"gpux_us\": {:.2f}, \"plain_us\": {:.2f}, \"ratio\": {:.4f}, \"runs\": {}}}",
        separator, std::filesystem::path(model).stem().string(), result.gpux_us, result.plain_us, result.ratio(),
        result.runs);
    std::fflush(stdout);
    separator = ",";
  }
  fmt::print("\n]}}\n");
  return within;
}

int measure(int argc, char** argv) {
  Settings settings;
  CLI::App app{
      "Compares gpux's run loop with a plain ONNX Runtime loop on the CPU: medians of alternate runs, as JSON. Exit 1 "
      "where a ratio is over the limit."};
  app.add_option("--model", settings.models,
                 "A model with float32 inputs; without one, a 50 us model and ResNet-50's graph");
  app.add_option("--seconds", settings.seconds, "How long to measure each model")->check(CLI::PositiveNumber);
  app.add_option("--limit", settings.limit, "Largest ratio allowed")->check(CLI::PositiveNumber);
  app.add_option("--threads", settings.threads, "Threads inside an operator")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (!settings.models.empty()) return compare_all(settings.models, settings) ? 0 : 1;
  return compare_all(MadeModels().files(), settings) ? 0 : 1;
}

}  // namespace
}  // namespace gpux::bench

int main(int argc, char** argv) {
  try {
    return gpux::bench::measure(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_overhead: %s\n", error.what());
    return 2;
  }
}
