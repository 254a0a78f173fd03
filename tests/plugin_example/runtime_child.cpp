#include "runtime_child.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gpux::plugin_example {
namespace {

// Entries of ONNX Runtime 1.24's table, behind the last one that 1.23's headers name.
template <typename Function>
Function entry(std::size_t index) {
  const auto* table = reinterpret_cast<void* const*>(&Ort::GetApi());
  return reinterpret_cast<Function>(table[index]);
}

using GetAssignment = OrtStatus* (*)(const OrtSession*, const void* const** subgraphs, std::size_t* count);
using GetProviderName = OrtStatus* (*)(const void* subgraph, const char** name);
using GetNodes = OrtStatus* (*)(const void* subgraph, const void* const** nodes, std::size_t* count);
using GetNodeName = OrtStatus* (*)(const void* node, const char** name);

const OrtApi* open_onnxruntime() {
  void* library = dlopen(ONNXRUNTIME_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto get_base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  if (get_base == nullptr) throw std::runtime_error(dlerror());
  const OrtApiBase* base = get_base();
  if (base->GetApi(24) == nullptr) throw std::runtime_error("ONNX Runtime is older than 1.24");
  return base->GetApi(ORT_API_VERSION);
}

[[noreturn]] void play(int channel, const Environment& environment,
                       const std::function<void(const Report& report)>& scenario) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  int exit_code = 0;
  const Report report = [channel](std::string line) {
    std::ranges::replace(line, '\n', ' ');
    line += '\n';
    if (write(channel, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  };
  try {
    scenario(report);
  } catch (const std::exception& error) {
    report(std::string("scenario ended by: ") + error.what());
    exit_code = 1;
  }
  // An ordinary exit, so that libraries tear themselves down and a leak is seen.
  std::exit(exit_code);
}

std::vector<std::string> read_lines(int channel) {
  std::string text;
  char block[4096];
  for (ssize_t got = 0; (got = read(channel, block, sizeof block)) > 0;) text.append(block, got);
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

ChildOutcome run_in_child(const Environment& environment, const std::function<void(const Report& report)>& scenario) {
  int channel[2];
  if (pipe(channel) != 0) throw std::runtime_error("no pipe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no child process");
  if (child == 0) {
    close(channel[0]);
    play(channel[1], environment, scenario);
  }
  close(channel[1]);
  ChildOutcome outcome{read_lines(channel[0]), -1};
  close(channel[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

std::string text_of(const Ort::Exception& error) {
  return "failed " + std::to_string(error.GetOrtErrorCode()) + ": " + error.what();
}

Runtime::Runtime() {
  Ort::InitApi(open_onnxruntime());
  // Errors only: the scenarios bring about warnings on purpose.
  environment_ = Ort::Env(ORT_LOGGING_LEVEL_FATAL, "plugin_example");
}

Runtime::~Runtime() {
  if (registered_) environment_.UnregisterExecutionProviderLibrary("example");
}

void Runtime::register_plugin() {
  environment_.RegisterExecutionProviderLibrary("example", EXAMPLE_PROVIDER_LIBRARY);
  registered_ = true;
}

std::vector<Ort::ConstEpDevice> Runtime::devices() const {
  std::vector<Ort::ConstEpDevice> found = environment_.GetEpDevices();
  std::erase_if(found, [](const Ort::ConstEpDevice& device) {
    return std::string(device.EpName()) != "GpuxExampleExecutionProvider";
  });
  return found;
}

Ort::Session Runtime::create_session(const std::string& model, const std::vector<Ort::ConstEpDevice>& devices,
                                     const std::map<std::string, std::string>& provider_options,
                                     const std::map<std::string, std::string>& configuration) {
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(1);
  options.AddConfigEntry("session.record_ep_graph_assignment_info", "1");
  for (const auto& [key, value] : configuration) options.AddConfigEntry(key.c_str(), value.c_str());
  if (!devices.empty()) {
    options.AppendExecutionProvider_V2(environment_, devices, {provider_options.begin(), provider_options.end()});
  }
  return {environment_, model.data(), model.size(), options};
}

Ort::Value Runtime::device_value(std::span<const std::int64_t> shape) {
  const Ort::ConstMemoryInfo memory = devices().at(0).GetMemoryInfo(OrtDeviceMemoryType_DEFAULT);
  return Ort::Value::CreateTensor<float>(environment_.GetSharedAllocator(memory), shape.data(), shape.size());
}

void Runtime::copy(const Ort::Value& from, const Ort::Value& to) {
  const std::array<const OrtValue*, 1> source{from};
  const std::array<OrtValue*, 1> target{const_cast<OrtValue*>(static_cast<const OrtValue*>(to))};
  Ort::ThrowOnError(Ort::GetApi().CopyTensors(environment_, source.data(), target.data(), nullptr, 1));
}

std::string placement(const Ort::Session& session) {
  const void* const* subgraphs = nullptr;
  std::size_t subgraph_count = 0;
  Ort::ThrowOnError(entry<GetAssignment>(407)(session, &subgraphs, &subgraph_count));
  std::map<std::string, std::string> nodes_of;
  for (std::size_t index = 0; index < subgraph_count; ++index) {
    const char* provider = nullptr;
    const void* const* nodes = nullptr;
    std::size_t node_count = 0;
    Ort::ThrowOnError(entry<GetProviderName>(408)(subgraphs[index], &provider));
    Ort::ThrowOnError(entry<GetNodes>(409)(subgraphs[index], &nodes, &node_count));
    for (std::size_t node = 0; node < node_count; ++node) {
      const char* name = nullptr;
      Ort::ThrowOnError(entry<GetNodeName>(410)(nodes[node], &name));
      nodes_of[provider] += std::string(" ") + name;
    }
  }
  std::string text;
  for (const auto& [provider, nodes] : nodes_of) {
    text += text.empty() ? "" : "; ";
    text += provider;
    text += ":";
    text += nodes;
  }
  return text;
}

Feed run(Ort::Session& session, const std::map<std::string, Feed>& inputs, const Ort::RunOptions& options) {
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  std::vector<const char*> names;
  std::vector<Ort::Value> values;
  for (const auto& [name, feed] : inputs) {
    names.push_back(name.c_str());
    values.push_back(Ort::Value::CreateTensor<float>(memory, const_cast<float*>(feed.values.data()), feed.values.size(),
                                                     feed.shape.data(), feed.shape.size()));
  }
  const char* output_name = "sum";
  const auto outputs = session.Run(options, names.data(), values.data(), values.size(), &output_name, 1);
  const auto info = outputs.front().GetTensorTypeAndShapeInfo();
  const auto* data = outputs.front().GetTensorData<float>();
  return {info.GetShape(), {data, data + info.GetElementCount()}};
}

}  // namespace gpux::plugin_example
