#pragma once

#include <cstdint>
#include <filesystem>

#include "importer/imported_model.h"

namespace gpux::importer {

/// Writes into `target`, a folder that embeds: model.onnx of the folder's model.safetensors and config.json, and copies
/// of tokenizer.json and the files of settings. A single pooling that the graph can do, and the normalisation behind
/// it, become part of the graph. Errors usage (the folder holds ONNX already), not_found, invalid_config (a family or
/// setting that is not served), invalid_model (weights that are not there), storage, permission.
ImportedModel import_encoder(const std::filesystem::path& folder, const std::filesystem::path& target);

/// Refuses what import_encoder() would refuse because of the settings, or of the names, sizes and types of the tensors.
/// The data of the safetensors files is not looked at: files with a true header and any data behind it do. Gives the
/// size of the weights as float32, which is about that of the ONNX files. Errors as import_encoder().
std::uint64_t require_importable_encoder(const std::filesystem::path& folder);

}  // namespace gpux::importer
