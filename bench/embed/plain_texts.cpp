#include "embed/plain_texts.h"

#include <atomic>
#include <thread>
#include <vector>

#include <onnxruntime_cxx_api.h>

#include "plain/core.h"

namespace gpux::bench {
namespace {

Ort::SessionOptions options() {
  Ort::SessionOptions made;
  made.SetIntraOpNumThreads(1);
  made.SetInterOpNumThreads(1);
  made.SetGraphOptimizationLevel(ORT_ENABLE_ALL);
  return made;
}

struct Text {
  std::vector<const char*> names;
  std::vector<Ort::Value> values;
};

}  // namespace

struct PlainTexts::State {
  Ort::Env environment{ORT_LOGGING_LEVEL_WARNING, "plain"};
  Ort::Session session;
  std::string output;
  std::vector<Text> texts;

  State(const std::filesystem::path& model, std::string name)
      : session(environment, model.c_str(), options()), output(std::move(name)) {}

  float run(Text& text) {
    const char* const wanted = output.c_str();
    const auto outputs =
        session.Run(Ort::RunOptions(), text.names.data(), text.values.data(), text.values.size(), &wanted, 1);
    return outputs.front().GetTensorData<float>()[0];
  }
};

PlainTexts::PlainTexts(const std::filesystem::path& core, const std::filesystem::path& model, const std::string& output,
                       std::span<const embedding::PreparedText> texts) {
  use_core(core);
  state_ = std::make_unique<State>(model, output);
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  for (const embedding::PreparedText& prepared : texts) {
    Text& text = state_->texts.emplace_back();
    for (const auto& [name, value] : prepared.inputs) {
      const auto elements = value.tensor()->as<std::int64_t>();
      const Shape& shape = value.tensor()->shape();
      text.names.push_back(name.c_str());
      text.values.push_back(Ort::Value::CreateTensor<std::int64_t>(memory, const_cast<std::int64_t*>(elements.data()),
                                                                   elements.size(), shape.data(), shape.size()));
    }
  }
}

PlainTexts::~PlainTexts() = default;

double PlainTexts::measure(unsigned threads, std::chrono::duration<double> time) {
  using Clock = std::chrono::steady_clock;
  std::atomic<std::size_t> next = 0, done = 0;
  const auto start = Clock::now();
  const auto end = start + time;
  {
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < threads; ++i) {
      workers.emplace_back([&] {
        while (Clock::now() < end) {
          state_->run(state_->texts[next++ % state_->texts.size()]);
          ++done;
        }
      });
    }
  }
  return static_cast<double>(done) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace gpux::bench
