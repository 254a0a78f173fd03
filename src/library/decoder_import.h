#pragma once

#include <filesystem>
#include <vector>

#include "library/folder_import.h"

namespace gpux {

/// How the flags convert a decoder. Error usage: a flag that is about variants of other models.
importer::DecoderImport decoder_import_of(const evaluation::QuantizeFlags& flags, const LoadFlags& load);

/// Stores the folder of a decoder, after it was loaded and has generated a token. Errors invalid_model (it has no keys
/// and values as inputs), invalid_config, storage; of Runtime.
ImportedPackage store_decoder_folder(const std::filesystem::path& folder, const std::vector<Reference>& names,
                                     const ImportRequest& request, Store& store);

}  // namespace gpux
