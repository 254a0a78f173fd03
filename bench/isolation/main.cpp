// Runs a model in this process, in a worker process, and in one with a sandbox by turns, with tensors of several sizes,
// and prints the time of a run, the context switches of both processes (each wake-up of a thread that waits is one),
// and their page faults, which fresh memory costs.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/resource.h>

#include "base/own_program.h"
#include "gpux/runtime.h"

namespace gpux::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  std::string model = GPUX_SOURCE_DIR "/tests/models/identity_float32.onnx";
  std::vector<std::int64_t> elements{4, 1'000, 16'000, 250'000, 2'500'000};
  double seconds = 2;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Voluntary ones: a thread went to sleep, and was woken.
std::uint64_t switches_here() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_nvcsw);
}

std::uint64_t switches_of(int process) {
  std::uint64_t sum = 0;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), error)) {
    std::ifstream lines(thread.path() / "status");
    for (std::string line; std::getline(lines, line);) {
      constexpr std::string_view name = "voluntary_ctxt_switches:";
      if (line.starts_with(name)) sum += std::stoull(line.substr(name.size()));
    }
  }
  return sum;
}

std::uint64_t faults_here() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_minflt);
}

std::uint64_t faults_of(int process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  constexpr int before_faults = 7;
  std::string field;
  for (int i = 0; i < before_faults; ++i) fields >> field;
  std::uint64_t faults = 0;
  fields >> faults;
  return faults;
}

struct Measured {
  std::vector<double> microseconds;
  std::uint64_t switches = 0, faults = 0;

  void run(const Runtime& runtime, const NamedValues& inputs) {
    const Clock::time_point start = Clock::now();
    const NamedValues outputs = runtime.infer(inputs);
    microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }

  [[nodiscard]] double switches_per_run() const {
    return static_cast<double>(switches) / static_cast<double>(microseconds.size());
  }

  [[nodiscard]] double faults_per_run() const {
    return static_cast<double>(faults) / static_cast<double>(microseconds.size());
  }
};

// Turns of some milliseconds, so that each finds the caches as it left them itself.
void measure(const Runtime& here, const Runtime& there, const Runtime& sandboxed, std::int64_t elements,
             double seconds) {
  NamedValues inputs = synthetic_inputs(here.info().signature);
  for (auto& [name, value] : inputs) value = Tensor::allocate(ElementType::float32, {elements});
  Measured in_thread, in_process, in_sandbox;
  for (int i = 0; i < 3; ++i) {
    (void)here.infer(inputs);
    (void)there.infer(inputs);
    (void)sandboxed.infer(inputs);
  }
  const int worker = there.worker().value_or(WorkerStatus()).process_id;
  constexpr int runs_in_a_turn = 20;
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (Clock::now() < end) {
    const std::uint64_t before_thread = switches_here(), faults_before_thread = faults_here();
    for (int i = 0; i < runs_in_a_turn; ++i) in_thread.run(here, inputs);
    const std::uint64_t before_process = switches_here();
    in_thread.switches += before_process - before_thread;
    in_thread.faults += faults_here() - faults_before_thread;
    const std::uint64_t faults_before = faults_here() + faults_of(worker);
    const std::uint64_t before_worker = switches_of(worker);
    const std::uint64_t before_runs = switches_here();
    for (int i = 0; i < runs_in_a_turn; ++i) in_process.run(there, inputs);
    in_process.switches += switches_here() - before_runs;
    in_process.switches += switches_of(worker) - before_worker;
    in_process.faults += faults_here() + faults_of(worker) - faults_before;
    for (int i = 0; i < runs_in_a_turn; ++i) in_sandbox.run(sandboxed, inputs);
  }
  const double thread_us = median(in_thread.microseconds), process_us = median(in_process.microseconds);
  std::printf("%12.0f  %10.1f  %11.1f  %10.1f  %10.1f  %15.2f  %16.2f  %13.1f  %14.1f  %6zu\n",
              static_cast<double>(elements) * 4, thread_us, process_us, median(in_sandbox.microseconds),
              process_us - thread_us, in_thread.switches_per_run(), in_process.switches_per_run(),
              in_thread.faults_per_run(), in_process.faults_per_run(), in_process.microseconds.size());
}

int run(int count, char** arguments) {
  Settings settings;
  CLI::App program("A session in a worker process against one in this process.");
  program.add_option("--model", settings.model, "float32 inputs with one free dimension");
  program.add_option("--elements", settings.elements, "of each input");
  program.add_option("--seconds", settings.seconds, "for each size");
  CLI11_PARSE(program, count, arguments);
  set_worker_program(GPUX_PROGRAM);
  LoadOptions options;
  options.provider = "cpu";
  options.intra_threads = 1;
  const Runtime here(settings.model, options);
  options.isolation = Isolation::process;
  const Runtime there(settings.model, options);
  options.sandbox = Sandbox::on;
  const Runtime sandboxed(settings.model, options);
  std::printf("loaded in %.1f ms here, %.1f ms in a worker, %.1f ms in a sandbox\n", here.load_time().count(),
              there.load_time().count(), sandboxed.load_time().count());
  std::printf(
      "input bytes   thread us   process us  sandbox us     more us  thread switches  process switches  thread faults  "
      "process faults    runs\n");
  for (const std::int64_t elements : settings.elements) measure(here, there, sandboxed, elements, settings.seconds);
  return 0;
}

}  // namespace
}  // namespace gpux::bench

int main(int count, char** arguments) {
  try {
    return gpux::bench::run(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_isolation: %s\n", error.what());
    return 1;
  }
}
