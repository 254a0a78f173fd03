#include "plain/plain_loop.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <onnxruntime_cxx_api.h>

#include "plain/core.h"

namespace gpux::bench {
namespace {

Ort::SessionOptions options_with(unsigned threads) {
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(static_cast<int>(threads));
  options.SetInterOpNumThreads(1);
  options.SetGraphOptimizationLevel(ORT_ENABLE_ALL);
  return options;
}

std::vector<const char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  pointers.reserve(texts.size());
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  return pointers;
}

}  // namespace

struct PlainLoop::State {
  Ort::Env environment{ORT_LOGGING_LEVEL_WARNING, "plain"};
  Ort::Session session;
  Ort::RunOptions run_options;
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  std::vector<const char*> input_pointers;
  std::vector<const char*> output_pointers;
  std::vector<Ort::Value> inputs;

  State(const std::filesystem::path& model, unsigned threads)
      : session(environment, model.c_str(), options_with(threads)), output_names(session.GetOutputNames()) {}
};

PlainLoop::PlainLoop(const std::filesystem::path& core, const std::filesystem::path& model, unsigned threads,
                     const NamedValues& inputs) {
  use_core(core);
  state_ = std::make_unique<State>(model, threads);
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  for (const auto& [name, value] : inputs) {
    const Tensor* tensor = value.tensor();
    if (tensor == nullptr) throw std::runtime_error("input '" + name + "' is no tensor");
    const auto elements = tensor->as<float>();
    state_->input_names.push_back(name);
    state_->inputs.push_back(Ort::Value::CreateTensor<float>(
        memory, const_cast<float*>(elements.data()), elements.size(), tensor->shape().data(), tensor->shape().size()));
  }
  state_->input_pointers = pointers_to(state_->input_names);
  state_->output_pointers = pointers_to(state_->output_names);
}

PlainLoop::~PlainLoop() = default;

float PlainLoop::run() {
  const auto outputs =
      state_->session.Run(state_->run_options, state_->input_pointers.data(), state_->inputs.data(),
                          state_->inputs.size(), state_->output_pointers.data(), state_->output_pointers.size());
  const std::size_t count = outputs.front().GetTensorTypeAndShapeInfo().GetElementCount();
  const auto* values = outputs.front().GetTensorData<float>();
  return values[0] + values[count - 1];
}

}  // namespace gpux::bench
