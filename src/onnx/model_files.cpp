#include "onnx/model_files.h"

#include <string>

#include "onnx/context_files.h"

namespace gpux::onnx {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(const fs::path& model, const ModelInfo& info) {
  std::vector<fs::path> files{model};
  const fs::path folder = model.parent_path();
  for (const ExternalFile& external : info.external_files) files.push_back(folder / external.location);
  if (info.operators.contains("com.microsoft::EPContext")) {
    for (const std::string& location : context_files(model)) files.push_back(folder / location);
  }
  return files;
}

}  // namespace gpux::onnx
