// What somebody writes who uses ONNX Runtime directly: open the library, load the model, run it once on zeros, print
// the first output. usage: bench_start_plain LIBRARY MODEL THREADS
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <dlfcn.h>
#include <onnxruntime_cxx_api.h>

int main(int count, char** arguments) {
  if (count != 4) return 2;
  void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const auto get_base = reinterpret_cast<const OrtApiBase*(ORT_API_CALL*)()>(dlsym(library, "OrtGetApiBase"));
  Ort::InitApi(get_base()->GetApi(ORT_API_VERSION));
  Ort::Env environment(ORT_LOGGING_LEVEL_ERROR, "plain");
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(std::atoi(arguments[3]));
  options.SetInterOpNumThreads(1);
  Ort::Session session(environment, arguments[2], options);

  const auto info = session.GetInputTypeInfo(0);
  std::vector<std::int64_t> shape = info.GetTensorTypeAndShapeInfo().GetShape();
  std::size_t elements = 1;
  for (std::int64_t& size : shape) {
    if (size < 0) size = 1;
    elements *= static_cast<std::size_t>(size);
  }
  std::vector<float> zeros(elements);
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  const Ort::Value input = Ort::Value::CreateTensor<float>(memory, zeros.data(), elements, shape.data(), shape.size());
  const std::vector<std::string> input_names = session.GetInputNames(), output_names = session.GetOutputNames();
  const char* input_name = input_names[0].c_str();
  const char* output_name = output_names[0].c_str();
  const auto outputs = session.Run(Ort::RunOptions(), &input_name, &input, 1, &output_name, 1);
  const float* values = outputs[0].GetTensorData<float>();
  const std::size_t output_count = outputs[0].GetTensorTypeAndShapeInfo().GetElementCount();
  for (std::size_t i = 0; i < output_count; ++i) std::printf("%g ", static_cast<double>(values[i]));
  std::printf("\n");
}
