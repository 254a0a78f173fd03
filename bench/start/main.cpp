// bench_start --library LIBRARY [--model MODEL.onnx | --large BYTES | --text FOLDER] [--rounds N]
// Starts gpux and the plain program by turns, takes the time from start to end and the peak of resident memory of each,
// and prints the medians with their ratios as JSON. --text: to the vector of one text, with each of --provider.
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

using Command = std::vector<std::string>;

// Each of them once per round, in turn: its median time and memory, in the order of the commands.
std::vector<Sample> run_by_turns(const std::vector<Command>& commands, int rounds) {
  std::vector<std::vector<double>> times(commands.size()), bytes(commands.size());
  for (const Command& command : commands) run(command);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < commands.size(); ++i) {
      const Sample sample = run(commands[i]);
      times[i].push_back(sample.time_ms);
      bytes[i].push_back(sample.peak_bytes);
    }
  }
  std::vector<Sample> medians;
  for (std::size_t i = 0; i < commands.size(); ++i) medians.push_back({median(times[i]), median(bytes[i])});
  return medians;
}

void print(const std::string& model, const std::string& provider, int rounds, const Sample& ours, const Sample& plain) {
  fmt::print("{{\"model\": \"{}\", ", model);
  if (!provider.empty()) fmt::print("\"provider\": \"{}\", ", provider);
  fmt::print(
      "\"rounds\": {}, \"gpux_ms\": {:.2f}, \"plain_ms\": {:.2f}, \"time_ratio\": {:.3f}, "
      "\"gpux_peak_bytes\": {:.0f}, \"plain_peak_bytes\": {:.0f}, \"memory_ratio\": {:.3f}}}\n",
      rounds, ours.time_ms, plain.time_ms, ours.time_ms / plain.time_ms, ours.peak_bytes, plain.peak_bytes,
      ours.peak_bytes / plain.peak_bytes);
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App program("From the start of a process to its answer: gpux against a plain ONNX Runtime program.");
  std::string library, model, large, text_model, gpux = GPUX_PROGRAM;
  std::vector<std::string> providers{"cpu", "encoder"};
  int rounds = 40, threads = 2;
  program.add_option("--library", library, "the ONNX Runtime library that both use")->required();
  program.add_option("--model", model, "a model with one float32 input");
  program.add_option("--large", large, "write a model of so many bytes and use that: 1GB");
  program.add_option("--text", text_model, "a Hugging Face folder of an encoder: embed a text with it");
  program.add_option("--provider", providers, "of gpux, with --text")->delimiter(',');
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
    if (model.empty() && text_model.empty()) throw std::runtime_error("give --model, --large or --text");
    ::setenv("GPUX_ONNXRUNTIME", library.c_str(), 1);
    if (!text_model.empty()) {
      // In the store for gpux, as a folder for the plain program.
      const std::string exported = folder / "exported", number = std::to_string(threads);
      const std::string text = "The quick brown fox jumps over the lazy dog.";
      ::setenv("GPUX_HOME", (folder / "home").c_str(), 1);
      run({gpux, "-q", "import", text_model, "-o", exported});
      run({gpux, "-q", "import", exported, "-t", "text"});
      std::vector<Command> commands{{PLAIN_TEXT_PROGRAM, library, exported, number, text}};
      for (const std::string& provider : providers) {
        commands.push_back(
            {gpux, "-q", "embed", "-m", "text", text, "--threads", number, "--provider", provider, "--strict"});
      }
      const std::vector<Sample> samples = run_by_turns(commands, rounds);
      const std::string name = std::filesystem::canonical(text_model).filename().string();
      for (std::size_t i = 0; i < providers.size(); ++i) print(name, providers[i], rounds, samples[i + 1], samples[0]);
    } else {
      const std::string input = folder / "input.npy";
      write_zeros(model, input);
      const Command own{gpux, "-q", "run", model, "--input", "@" + input, "--threads", std::to_string(threads)};
      const std::vector<Sample> samples =
          run_by_turns({own, {PLAIN_PROGRAM, library, model, std::to_string(threads)}}, rounds);
      print(std::filesystem::path(model).filename().string(), "", rounds, samples[0], samples[1]);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_start: {}\n", error.what());
    code = 1;
  }
  std::filesystem::remove_all(folder);
  return code;
}
