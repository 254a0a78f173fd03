// Measures a model on inputs made up from its signature: benchmark MODEL.onnx
#include <gpux/benchmark.h>
#include <gpux/error.h>
#include <gpux/runtime.h>

#include <iostream>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  try {
    const gpux::Runtime model(arguments[1]);
    gpux::BenchmarkOptions options;
    options.runs = 50;
    const gpux::BenchmarkResult result = model.benchmark(synthetic_inputs(model.info().signature), options);
    std::cout << "median " << result.median_ms << " ms, p99 " << result.p99_ms << " ms, "
              << result.throughput_per_second << " runs/s\n";
  } catch (const gpux::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
