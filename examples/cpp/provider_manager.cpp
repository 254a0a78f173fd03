// What this machine can run models on.
#include <gpux/error.h>
#include <gpux/provider_manager.h>

#include <iostream>

int main() {
  try {
    const gpux::ProviderManager manager;
    for (const gpux::ProviderReport& report : manager.providers()) {
      std::cout << report.id << ": " << (report.available ? "available" : report.reason) << '\n';
    }
    std::cout << "auto means " << manager.best_provider() << ", on ONNX Runtime " << gpux::runtime_library().version
              << '\n';
  } catch (const gpux::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
