// What somebody writes who embeds a text with ONNX Runtime and Hugging Face's tokenizers directly: open the library,
// load tokenizer and model, run the text once, average the vectors of its tokens, scale to length 1, print. usage:
// bench_start_plain_text LIBRARY FOLDER THREADS TEXT   FOLDER holds tokenizer.json and model.onnx
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <onnxruntime_cxx_api.h>

#include "text/tokenizer.h"

int main(int count, char** arguments) {
  if (count != 5) return 2;
  void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const auto get_base = reinterpret_cast<const OrtApiBase*(ORT_API_CALL*)()>(dlsym(library, "OrtGetApiBase"));
  Ort::InitApi(get_base()->GetApi(ORT_API_VERSION));
  const std::filesystem::path folder = arguments[2];
  Ort::Env environment(ORT_LOGGING_LEVEL_ERROR, "plain");
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(std::atoi(arguments[3]));
  options.SetInterOpNumThreads(1);
  Ort::Session session(environment, (folder / "model.onnx").c_str(), options);

  const auto tokenizer = gpux::text::Tokenizer::from_file(folder / "tokenizer.json");
  const auto encoding = tokenizer.encode(arguments[4], {.max_tokens = 256});
  std::vector<std::int64_t> ids(encoding.ids().begin(), encoding.ids().end());
  std::vector<std::int64_t> types(encoding.type_ids().begin(), encoding.type_ids().end());
  std::vector<std::int64_t> mask(ids.size(), 1);

  const std::int64_t shape[] = {1, static_cast<std::int64_t>(ids.size())};
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  const std::vector<std::string> names = session.GetInputNames();
  std::vector<const char*> input_names;
  std::vector<Ort::Value> inputs;
  for (const std::string& name : names) {
    auto& values = name == "input_ids" ? ids : name == "attention_mask" ? mask : types;
    input_names.push_back(name.c_str());
    inputs.push_back(Ort::Value::CreateTensor<std::int64_t>(memory, values.data(), values.size(), shape, 2));
  }
  std::string output;
  std::size_t hidden_size = 0;
  for (std::size_t i = 0; i < session.GetOutputCount() && output.empty(); ++i) {
    const std::vector<std::int64_t> sizes = session.GetOutputTypeInfo(i).GetTensorTypeAndShapeInfo().GetShape();
    if (sizes.size() != 3) continue;
    output = session.GetOutputNames().at(i);
    hidden_size = static_cast<std::size_t>(sizes[2]);
  }
  const char* output_name = output.c_str();
  const auto outputs =
      session.Run(Ort::RunOptions(), input_names.data(), inputs.data(), inputs.size(), &output_name, 1);
  const float* states = outputs[0].GetTensorData<float>();
  std::vector<float> vector(hidden_size);
  for (std::size_t token = 0; token < ids.size(); ++token) {
    for (std::size_t i = 0; i < hidden_size; ++i) vector[i] += states[token * hidden_size + i];
  }
  float squares = 0;
  for (const float value : vector) squares += value * value;
  for (const float value : vector) std::printf("%g ", static_cast<double>(value / std::sqrt(squares)));
  std::printf("\n");
}
