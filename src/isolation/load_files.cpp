#include "isolation/load_files.h"

#include <algorithm>

#include "gpux/error.h"
#include "onnx/model_file.h"
#include "onnx/model_files.h"

namespace gpux::isolation {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> known_files_of(const fs::path& file) {
  try {
    return onnx::files_of(file, onnx::inspect(file));
  } catch (const Error&) {
    return {file};
  }
}

}  // namespace

std::vector<fs::path> files_of_load(const fs::path& model, const LoadOptions& options) {
  std::vector<fs::path> files;
  const auto add = [&](const fs::path& file) {
    std::error_code error;
    if (file.empty() || !fs::exists(file, error)) return;
    for (const fs::path& one : known_files_of(file)) {
      const fs::path absolute = fs::absolute(one);
      if (std::ranges::find(files, absolute) == files.end()) files.push_back(absolute);
    }
  };
  add(model);
  add(options.before);
  add(options.after);
  for (const OptimizedGraph& graph : options.optimized_graphs) add(graph.file);
  for (const PrecisionVariant& variant : options.precision_variants) add(variant.file);
  return files;
}

}  // namespace gpux::isolation
