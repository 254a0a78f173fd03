// One load of a model in a process of its own, since a process has one ONNX Runtime and one environment.
// run_scenario MODEL [--provider P] [--library NAME=PATH] [--option PROVIDER.KEY=VALUE] [--strict provider|nodes]
//              [--device N] [--threads N|default] [--memory BYTES] [--precision P] [--profile FILE] [--input
//              NAME=SIZES:VALUES] [STEP …]
// STEP: infer[:MILLISECONDS], a run with that timeout; device:RUNS, inputs are uploaded, and the outputs of the last of
//       so many runs are read from the device; touch:FILE; sleep:MILLISECONDS.
// Prints one JSON object: {"error"} of loading, or {"verdict", "line", "placement", "steps", "threads"}.

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "gpux/runtime.h"

namespace {

using gpux::NamedValues;
using gpux::Tensor;
using nlohmann::ordered_json;

ordered_json to_json(const gpux::Error& error) {
  return {{"code", std::string(gpux::to_string(error.code()))}, {"message", error.message()}};
}

// "x=1,2:0.5,1.5", float32.
gpux::NamedValue read_input(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::size_t colon = text.find(':', equals);
  gpux::Shape shape;
  for (const std::string& size : gpux::split(text.substr(equals + 1, colon - equals - 1), ',')) {
    shape.push_back(std::stoll(size));
  }
  std::vector<float> values;
  for (const std::string& value : gpux::split(text.substr(colon + 1), ',')) values.push_back(std::stof(value));
  return {text.substr(0, equals), Tensor::of<float>(std::move(shape), values)};
}

ordered_json floats_of(const NamedValues& outputs) {
  ordered_json json = ordered_json::object();
  for (const auto& [name, value] : outputs) {
    const auto values = value.tensor()->as<float>();
    json[name] = std::vector<float>(values.begin(), values.end());
  }
  return json;
}

ordered_json play_on_device(const gpux::Runtime& runtime, const NamedValues& inputs, int runs) {
  ordered_json result{{"on_device", true}};
  const gpux::TransferCounts before = runtime.transfers();
  gpux::NamedDeviceTensors uploaded, outputs;
  for (const auto& [name, value] : inputs) uploaded.emplace_back(name, runtime.upload(*value.tensor(), name));
  for (int run = 0; run < runs; ++run) outputs = runtime.infer_on_device({}, uploaded);
  NamedValues read;
  for (const auto& [name, tensor] : outputs) {
    result["on_device"] = result["on_device"].get<bool>() && tensor.is_on_device();
    read.emplace_back(name, tensor.read());
  }
  const gpux::TransferCounts after = runtime.transfers();
  result["outputs"] = floats_of(read);
  result["transfers"] = {after.to_device - before.to_device, after.to_device_bytes - before.to_device_bytes,
                         after.from_device - before.from_device, after.from_device_bytes - before.from_device_bytes};
  return result;
}

ordered_json play(const gpux::Runtime& runtime, const NamedValues& inputs, const std::string& step) {
  const std::size_t colon = step.find(':');
  const std::string verb = step.substr(0, colon);
  const std::string argument = colon == std::string::npos ? std::string() : step.substr(colon + 1);
  ordered_json result{{"step", verb}};
  const auto start = std::chrono::steady_clock::now();
  if (verb == "touch") {
    std::ofstream file(argument);
  } else if (verb == "sleep") {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(argument)));
  } else if (verb == "device") {
    try {
      result.update(play_on_device(runtime, inputs, std::stoi(argument)));
    } catch (const gpux::Error& error) {
      result["error"] = to_json(error);
    }
  } else {
    gpux::InferOptions options;
    if (!argument.empty()) options.timeout = std::chrono::milliseconds(std::stoi(argument));
    try {
      result["outputs"] = floats_of(runtime.infer(inputs, options));
    } catch (const gpux::Error& error) {
      result["error"] = to_json(error);
    }
  }
  result["ms"] = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

// A joined thread is listed for a moment.
std::ptrdiff_t settled_threads() {
  const auto listed = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}); };
  std::ptrdiff_t threads = listed();
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (const std::ptrdiff_t now = listed(); std::exchange(threads, now) == now) break;
  }
  return threads;
}

}  // namespace

int main(int count, char** arguments) {
  ordered_json report;
  gpux::LoadOptions options;
  options.provider_from = "--provider";
  options.intra_threads = 1;
  NamedValues inputs;
  std::vector<std::string> steps;
  for (int i = 2; i < count; ++i) {
    const std::string word = arguments[i];
    if (!word.starts_with("--")) {
      steps.push_back(word);
      continue;
    }
    const std::string value = ++i < count ? arguments[i] : "";
    const std::size_t equals = value.find('=');
    if (word == "--provider") options.provider = value;
    if (word == "--library") options.provider_libraries.push_back({value.substr(0, equals), value.substr(equals + 1)});
    if (word == "--strict") {
      options.strict = value == "nodes" ? gpux::Strictness::nodes : gpux::Strictness::provider;
    }
    if (word == "--threads") {
      options.intra_threads = value == "default" ? std::nullopt : std::optional<unsigned>(std::stoul(value));
    }
    if (word == "--device") options.device = std::stoul(value);
    if (word == "--memory") options.memory_bytes = std::stoull(value);
    if (word == "--precision") options.precision = value;
    if (word == "--cache") options.cache_directory = value;
    if (word == "--profile") options.profile = value;
    if (word == "--log") gpux::log::start(gpux::log::Level::debug, gpux::log::Format::text);
    if (word == "--input") inputs.push_back(read_input(value));
    if (word == "--option") {
      const std::size_t dot = value.find('.');
      options.provider_options.push_back(
          {value.substr(0, dot), {{value.substr(dot + 1, equals - dot - 1), value.substr(equals + 1)}}, "--option"});
    }
  }
  try {
    const gpux::Runtime runtime(arguments[1], options);
    report["verdict"] = ordered_json::parse(gpux::to_json(runtime.verdict()));
    report["line"] = gpux::to_line(runtime.verdict());
    auto& placement = report["placement"] = ordered_json::object();
    for (const auto& node : runtime.placement()) placement[node.provider].push_back(node.operator_type);
    if (inputs.empty()) inputs = gpux::synthetic_inputs(runtime.info().signature);
    report["steps"] = ordered_json::array();
    for (const std::string& step : steps) report["steps"].push_back(play(runtime, inputs, step));
    report["threads"] = settled_threads();
  } catch (const gpux::Error& error) {
    report["error"] = to_json(error);
  }
  std::cout << report.dump() << std::endl;
  return 0;
}
