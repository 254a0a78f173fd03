// Writes a model of a well-known shape with random weights.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

#include "plain/models.h"

int main(int argc, char** argv) {
  std::string kind, file;
  std::int64_t images = gpux::bench::free_batch;
  CLI::App app{"Writes a model of a well-known shape with random weights"};
  app.add_option("kind", kind, "resnet50, or wide: a perceptron that reads 134 million weights")
      ->required()
      ->check(CLI::IsMember({"resnet50", "wide"}));
  app.add_option("file", file, "The .onnx file")->required();
  app.add_option("--images", images, "resnet50: images of a run; any number without it")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    if (kind == "resnet50") gpux::bench::write_resnet50(file, images);
    if (kind == "wide") gpux::bench::write_wide_model(file);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_write_model: %s\n", error.what());
    return 1;
  }
}
