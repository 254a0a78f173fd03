// bench_start --library LIBRARY [--model MODEL.onnx | --large BYTES] [--rounds N]
// Starts gpux run and the plain program by turns, takes the time from start to end and the peak of resident memory of
// each, and prints the medians with their ratios as JSON.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/memory_size.h"
#include "large_model.h"
#include "onnx/model_file.h"
#include "tensor/npy.h"

namespace {

struct Sample {
  double time_ms = 0;
  double peak_bytes = 0;
};

Sample run(const std::vector<std::string>& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    const int sink = ::open("/dev/null", O_WRONLY);
    ::dup2(sink, STDOUT_FILENO);
    std::vector<char*> pointers;
    for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  ::wait4(child, &status, 0, &usage);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  if (status != 0) throw std::runtime_error(fmt::format("{} failed with status {}", arguments[0], status));
  return {taken.count(), static_cast<double>(usage.ru_maxrss) * 1024};
}

// The input that the plain program makes up itself, in a file as a user of gpux would give it.
void write_zeros(const std::filesystem::path& model, const std::filesystem::path& file) {
  const gpux::ModelInfo info = gpux::onnx::inspect(model);
  gpux::Shape shape;
  for (const gpux::Dimension& dimension : info.signature.inputs.at(0).type.dimensions.value()) {
    shape.push_back(dimension.size.value_or(1));
  }
  std::string content;
  gpux::append_npy(content, gpux::Tensor::allocate(gpux::ElementType::float32, shape));
  gpux::write_file_atomically(file, content);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App program("From the start of a process to its answer: gpux run against a plain ONNX Runtime program.");
  std::string library, model, large, gpux = GPUX_PROGRAM;
  int rounds = 40, threads = 2;
  program.add_option("--library", library, "the ONNX Runtime library that both use")->required();
  program.add_option("--model", model, "a model with one float32 input");
  program.add_option("--large", large, "write a model of so many bytes and use that: 1GB");
  program.add_option("--rounds", rounds, "runs of each");
  program.add_option("--threads", threads, "of both");
  program.add_option("--gpux", gpux, "the gpux program");
  CLI11_PARSE(program, count, arguments);

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("bench_start.{}", ::getpid());
  std::filesystem::create_directories(folder);
  int code = 0;
  try {
    if (!large.empty()) {
      model = folder / "large.onnx";
      gpux::bench::write_large_model(model, gpux::parse_memory_size(large).value());
    }
    if (model.empty()) throw std::runtime_error("give --model or --large");
    ::setenv("GPUX_ONNXRUNTIME", library.c_str(), 1);
    const std::string input = folder / "input.npy";
    write_zeros(model, input);
    const std::vector<std::string> own{gpux,      "-q",        "run",       model,
                                       "--input", "@" + input, "--threads", std::to_string(threads)};
    const std::vector<std::string> plain{PLAIN_PROGRAM, library, model, std::to_string(threads)};
    std::vector<double> own_ms, plain_ms, own_bytes, plain_bytes;
    run(own);
    run(plain);
    for (int i = 0; i < rounds; ++i) {
      const Sample ours = run(own), theirs = run(plain);
      own_ms.push_back(ours.time_ms);
      own_bytes.push_back(ours.peak_bytes);
      plain_ms.push_back(theirs.time_ms);
      plain_bytes.push_back(theirs.peak_bytes);
    }
    fmt::print(
        "{{\"model\": \"{}\", \"rounds\": {}, \"gpux_ms\": {:.2f}, \"plain_ms\": {:.2f}, \"time_ratio\": {:.3f}, "
        "\"gpux_peak_bytes\": {:.0f}, \"plain_peak_bytes\": {:.0f}, \"memory_ratio\": {:.3f}}}\n",
        std::filesystem::path(model).filename().string(), rounds, median(own_ms), median(plain_ms),
        median(own_ms) / median(plain_ms), median(own_bytes), median(plain_bytes),
        median(own_bytes) / median(plain_bytes));
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_start: {}\n", error.what());
    code = 1;
  }
  std::filesystem::remove_all(folder);
  return code;
}
