#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "onnx/graph_writer.h"
#include "runtime/cpu_runtime.h"

namespace gpux::test {

/// All that the provider itself counts.
inline std::vector<std::uint64_t> all_provider_counts() {
  void* const library = ::dlopen(GPUX_EXAMPLE_PROVIDER, RTLD_NOW);
  const auto count = reinterpret_cast<void (*)(std::uint64_t*)>(::dlsym(library, "GpuxExampleCopies"));
  std::vector<std::uint64_t> counts(14);
  count(counts.data());
  return counts;
}

/// Models of one Mul on the example provider, whose device memory holds every bit inverted.
class ExampleDevice : public CpuRuntime {
 protected:
  void SetUp() override {
    CpuRuntime::SetUp();
    if (IsSkipped()) return;
    const std::array<onnx::WrittenSize, 1> sizes{"n"};
    onnx::GraphWriter graph("product");
    for (const char* name : {"a", "b"}) graph.input(name, ElementType::float32, sizes);
    graph.node("Mul", {"a", "b"}, {}, "c");
    graph.output("c", ElementType::float32, sizes);
    graph.write(product_file(), 17, 8);
  }

  [[nodiscard]] std::filesystem::path product_file() const { return folder_.path() / "product.onnx"; }

  static LoadOptions on_example() {
    LoadOptions options;
    options.provider = "example";
    options.provider_libraries = {{"example", GPUX_EXAMPLE_PROVIDER}};
    options.intra_threads = 1;
    return options;
  }

  [[nodiscard]] Runtime product() const { return Runtime(product_file(), on_example()); }

  /// Products of two inputs whose sizes are `input`, declared as `output`.
  [[nodiscard]] Runtime declared(const std::vector<onnx::WrittenSize>& input,
                                 const std::vector<onnx::WrittenSize>& output) const {
    onnx::GraphWriter graph("declared");
    for (const char* name : {"a", "b"}) graph.input(name, ElementType::float32, input);
    graph.node("Mul", {"a", "b"}, {}, "c");
    graph.output("c", ElementType::float32, output);
    graph.write(folder_.path() / "declared.onnx", 17, 8);
    return Runtime(folder_.path() / "declared.onnx", on_example());
  }

  /// Whether the provider has pinned memory: a second test of this program is without.
  static bool has_pinned_memory() {
    const char* const pinned = std::getenv("GPUX_EXAMPLE_PINNED");
    return pinned == nullptr || std::string(pinned) != "off";
  }

  TemporaryFolder folder_;
};

}  // namespace gpux::test
