// The signature of a model: model_info MODEL.onnx
#include <gpux/error.h>
#include <gpux/model_info.h>
#include <gpux/model_inspector.h>

#include <iostream>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  try {
    const gpux::ModelInfo info = gpux::ModelInspector::inspect(arguments[1]);
    for (const gpux::SignatureEntry& input : info.signature.inputs) {
      std::cout << input.name << ' ' << to_string(input.type) << (input.required ? "" : " (may be left out)") << '\n';
    }
    std::cout << info.parameter_count << " parameters, " << info.operators.size() << " operators\n";
  } catch (const gpux::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
