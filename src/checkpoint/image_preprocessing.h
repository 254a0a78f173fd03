#pragma once

#include <filesystem>
#include <string>

#include "image/recipe.h"

namespace gpux::checkpoint {

/// Whether the folder says how images become inputs: preprocessor_config.json, or "image_processor" of
/// processor_config.json.
[[nodiscard]] bool has_image_preprocessing(const std::filesystem::path& folder);

/// The recipe of transformers' image processor of the folder: CLIPImageProcessor, SiglipImageProcessor,
/// ViTImageProcessor, DeiTImageProcessor, BitImageProcessor (DINOv2), or their former names (…FeatureExtractor). What
/// the file does not say is the default of that processor. Error not_found; invalid_model with the file's name for
/// other processors, and for settings that gpux has no steps for.
[[nodiscard]] image::Recipe read_image_preprocessing(const std::filesystem::path& folder);

/// The recipe as `preprocessing` of gpux.yml, of lines that are indented by two spaces.
[[nodiscard]] std::string yaml_of(const image::Recipe& recipe);

}  // namespace gpux::checkpoint
