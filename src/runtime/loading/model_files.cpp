#include "runtime/loading/model_files.h"

#include <algorithm>
#include <span>

#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "onnx/context_files.h"
#include "provider/engine_cache.h"

namespace gpux::runtime {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(const fs::path& model, const ModelInfo& info) {
  std::vector<fs::path> files{model};
  const fs::path folder = model.parent_path();
  for (const ExternalFile& external : info.external_files) files.push_back(folder / external.location);
  if (info.operators.contains("com.microsoft::EPContext")) {
    for (const std::string& location : onnx::context_files(model)) files.push_back(folder / location);
  }
  return files;
}

std::string digest_of(const fs::path& model, const ModelInfo& info) {
  const std::vector<fs::path> files = files_of(model, info);
  return provider::model_digest(files.front(), std::span(files).subspan(1));
}

namespace {

std::vector<fs::path> known_files_of(const fs::path& file) {
  try {
    return files_of(file, ModelInspector::inspect(file));
  } catch (const Error&) {
    return {file};
  }
}

}  // namespace

std::vector<fs::path> files_of(const fs::path& model, const LoadOptions& options) {
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

}  // namespace gpux::runtime
