// Asks for a provider, with options and a limit of time: options MODEL.onnx
#include <gpux/error.h>
#include <gpux/runtime.h>

#include <iostream>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  gpux::LoadOptions options;
  options.provider = "tensorrt,cuda,cpu";  // just these, in this order
  options.provider_options = {{"cuda", {{"cudnn_conv_algo_search", "HEURISTIC"}, {"memory", "2GB"}}, {}}};
  options.intra_threads = 1;
  options.optimization = gpux::Optimization::extended;
  try {
    const gpux::Runtime model(arguments[1], options);
    const auto outputs =
        model.infer(synthetic_inputs(model.info().signature), {.timeout = std::chrono::seconds(5), .outputs = {}});
    std::cout << outputs.size() << " outputs within 5 s\n";
  } catch (const gpux::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
