#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "importer/imported_model.h"

namespace gpux::importer {

/// Whether the folder's config.json is of a family of images that import_image_model() converts.
[[nodiscard]] bool is_image_model(const std::filesystem::path& folder);

/// Refuses what import_image_model() would refuse because of the settings, or of the names and sizes of the tensors,
/// whose data is not looked at. Gives their size as float32. Errors as import_image_model().
std::uint64_t require_importable_image_model(const std::filesystem::path& folder);

/// Writes into `target`, a folder: the ONNX file of the folder's model.safetensors and config.json, or text_model.onnx
/// and vision_model.onnx of a model with two towers; gpux.yml with how images become its input; and copies of the files
/// of settings. Errors not_found, invalid_config, invalid_model, storage, permission.
ImportedModel import_image_model(const std::filesystem::path& folder, const std::filesystem::path& target);

}  // namespace gpux::importer
