#pragma once

#include <filesystem>
#include <vector>

#include "library/folder_import.h"

namespace gpux {

/// Stores the folder of a decoder, after it was loaded and has generated a token. Errors invalid_model (it has no keys
/// and values as inputs), invalid_config, usage (--quantize), storage; of Runtime.
ImportedPackage store_decoder_folder(const std::filesystem::path& folder, const std::vector<Reference>& names,
                                     const ImportRequest& request, Store& store);

}  // namespace gpux
