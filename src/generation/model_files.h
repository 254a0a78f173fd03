#pragma once

#include <cstddef>
#include <filesystem>

#include "generation/settings.h"

namespace gpux::generation {

/// What the files beside a decoder say.
struct ModelFiles {
  std::filesystem::path tokenizer;
  std::size_t context_length = 0;  ///< tokens
  ModelDefaults defaults;
};

/// Reads tokenizer.json's place, config.json and generation_config.json of the folder.
/// Errors not_found, invalid_model (a value that cannot be meant).
ModelFiles read_model_files(const std::filesystem::path& folder);

}  // namespace gpux::generation
