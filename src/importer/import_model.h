#pragma once

#include <cstdint>
#include <filesystem>

#include "importer/imported_model.h"

namespace gpux::importer {

/// Makes a folder with ONNX files out of one with weights, or of a GGUF file: what import_encoder(), import_decoder(),
/// import_image_model() and import_gguf() write. `target` may not be there yet, or must be empty; where anything fails
/// it is left out. Errors theirs; usage: `target` is in use, or the format has no such settings as `decoder`.
ImportedModel import_model(const std::filesystem::path& source, const std::filesystem::path& target,
                           const DecoderImport& decoder = {});

/// Refuses a folder that import_model() would refuse because of its settings, or of the names, sizes and types of its
/// tensors, whose data is not looked at. Gives the size of its weights as float32, which is about that of the ONNX
/// files. Errors as import_model().
std::uint64_t require_importable(const std::filesystem::path& folder);

}  // namespace gpux::importer
