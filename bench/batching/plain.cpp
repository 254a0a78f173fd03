// A plain ONNX Runtime loop at several batch sizes: rows a second of each.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "plain/models.h"
#include "plain/plain_loop.h"

namespace gpux::bench {
namespace {

struct Settings {
  std::string write;
  std::string library;
  std::string model;
  std::vector<std::int64_t> batches;
  unsigned threads = 1;
  double seconds = 2;
};

double rows_a_second(const Settings& settings, std::int64_t rows) {
  using Clock = std::chrono::steady_clock;
  Tensor input = Tensor::allocate(ElementType::float32, {rows, wide_model_width});
  std::ranges::fill(input.mutable_as<float>(), 0.5F);
  NamedValues inputs;
  inputs.emplace_back("x", std::move(input));
  PlainLoop loop(settings.library, settings.model, settings.threads, inputs);
  for (int warm_up = 0; warm_up < 3; ++warm_up) loop.run();
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(settings.seconds);
  std::int64_t runs = 0;
  for (; Clock::now() < end; ++runs) loop.run();
  return static_cast<double>(runs * rows) / std::chrono::duration<double>(Clock::now() - start).count();
}

int measure(int argc, char** argv) {
  Settings settings;
  CLI::App app{
      "Runs a model of one input, float32[batch, 2048], at several batch sizes; prints rows a second as JSON."};
  app.add_option("--write", settings.write, "Write such a model to this file and end");
  app.add_option("--library", settings.library, "libonnxruntime.so");
  app.add_option("--model", settings.model, "The model");
  app.add_option("--batch", settings.batches, "Batch sizes")->check(CLI::Range(1, 4096));
  app.add_option("--threads", settings.threads, "Threads inside an operator")->check(CLI::Range(1, 4096));
  app.add_option("--seconds", settings.seconds, "How long to measure each")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (!settings.write.empty()) {
    write_wide_model(settings.write);
    return 0;
  }
  const char* separator = "{";
  for (const std::int64_t rows : settings.batches) {
    fmt::print("{}\"{}\": {:.2f}", separator, rows, rows_a_second(settings, rows));
    separator = ", ";
  }
  fmt::print("}}\n");
  return 0;
}

}  // namespace
}  // namespace gpux::bench

int main(int argc, char** argv) {
  try {
    return gpux::bench::measure(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_batching_plain: %s\n", error.what());
    return 2;
  }
}
