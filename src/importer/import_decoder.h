#pragma once

#include <cstdint>
#include <filesystem>

#include "importer/import_encoder.h"

namespace gpux::importer {

/// Whether config.json names a model that generates text (…ForCausalLM). A folder of sentence-transformers
/// (modules.json) makes vectors with such a model.
[[nodiscard]] bool is_decoder_folder(const std::filesystem::path& folder);

/// As require_importable().
std::uint64_t require_importable_decoder(const std::filesystem::path& folder);

/// Writes into `target`, a folder: the ONNX file of the folder's model.safetensors and config.json, and copies of the
/// files of settings. Errors not_found, invalid_config, invalid_model, storage, permission.
ImportedEncoder import_decoder(const std::filesystem::path& folder, const std::filesystem::path& target,
                               const DecoderImport& options = {});

}  // namespace gpux::importer
