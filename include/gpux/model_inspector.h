#pragma once

#include <filesystem>
#include <string>

#include "gpux/export.h"
#include "gpux/model_info.h"

namespace gpux {

/// Reads ONNX files without creating a session.
class GPUX_API ModelInspector {
 public:
  /// The content of the file. Tensors are not read, so large files are fast, too.
  /// Errors not_found, permission, invalid_model.
  [[nodiscard]] static ModelInfo inspect(const std::filesystem::path& model);

  /// Model information from inspect() as a JSON object.
  [[nodiscard]] static std::string to_json(const ModelInfo& info);
};

}  // namespace gpux
