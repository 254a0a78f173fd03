// Loads a model and runs it: runtime MODEL.onnx
#include <gpux/error.h>
#include <gpux/runtime.h>

#include <iostream>
#include <vector>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  try {
    const gpux::Runtime model(arguments[1]);  // the best provider of this machine
    std::cerr << to_line(model.verdict()) << '\n';

    const std::vector<float> pixels(64, 8.0F);
    const gpux::Tensor image = gpux::Tensor::of<float>({1, 1, 8, 8}, pixels);
    for (const auto& [name, value] : model.infer({{"image", image}})) {
      std::cout << name << ':';
      for (const float number : value.tensor()->as<float>()) std::cout << ' ' << number;
      std::cout << '\n';
    }

    // Many items in one call share runs where the model allows it.
    const std::vector<gpux::NamedValues> items(3, {{"image", image}});
    std::cout << model.batch_infer(items).size() << " results\n";
  } catch (const gpux::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
