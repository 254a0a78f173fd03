#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "generation/settings.h"

namespace gpux::generation {

/// Settings read from the files next to a decoder.
struct ModelFiles {
  std::filesystem::path tokenizer;
  std::size_t context_length = 0;  ///< tokens
  ModelDefaults defaults;
  /// Tells the content of the model's files from any other, where that is known without reading them: of a stored
  /// package. Empty: it is not known.
  std::string digest = {};
};

/// Reads the files beside an ONNX file in `folder`: the place of tokenizer.json, and genai_config.json, or else
/// config.json and generation_config.json. Where the folder is called onnx and has no tokenizer, they are in the folder
/// around it. Errors not_found, invalid_model (a value that cannot be meant, or a layout that is not supported).
ModelFiles read_model_files(const std::filesystem::path& folder);

}  // namespace gpux::generation
