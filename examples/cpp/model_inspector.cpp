// What stands in an ONNX file, without loading it: model_inspector MODEL.onnx
#include <gpux/error.h>
#include <gpux/model_inspector.h>

#include <iostream>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  try {
    const gpux::ModelInfo info = gpux::ModelInspector::inspect(arguments[1]);
    std::cout << gpux::ModelInspector::to_json(info) << '\n';
  } catch (const gpux::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
