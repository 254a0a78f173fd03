// Where a model really runs, and why: verdict MODEL.onnx
#include <gpux/error.h>
#include <gpux/runtime.h>

#include <iostream>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  gpux::LoadOptions options;
  options.provider = "cuda";
  try {
    const gpux::Runtime model(arguments[1], options);
    for (const gpux::ProviderAttempt& attempt : model.verdict().tried) {
      std::cout << attempt.id << ' ' << to_string(attempt.outcome) << ' ' << attempt.node_count << " nodes "
                << attempt.reason << '\n';
    }
    std::cout << to_json(model.verdict()) << '\n';
  } catch (const gpux::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
