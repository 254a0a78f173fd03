#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "importer/imported_model.h"

namespace gpux::importer {

/// Writes into `target`, a folder, what import_decoder() makes of a folder of transformers: the ONNX file, and
/// config.json, generation_config.json, tokenizer.json, tokenizer_config.json and chat_template.jinja of the metadata.
/// Matrices of 16 bits keep their type, and those in blocks become blocks of MatMulNBits (stored_blocks.h).
/// `context_length`: as set_context(). Errors not_found, permission, storage, invalid_config, invalid_model (what is
/// not supported, by name), usage (of the context).
ImportedModel import_gguf(const std::filesystem::path& file, const std::filesystem::path& target,
                          std::int64_t context_length = 0);

/// Refuses what import_gguf() refuses and the first bytes of the file show: another format, and a family that is not
/// supported. Error invalid_model.
void require_importable_gguf(std::string_view first_bytes);

}  // namespace gpux::importer
