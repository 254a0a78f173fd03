#pragma once

#include <filesystem>
#include <vector>

#include "generation/quantization_gate.h"
#include "importer/imported_model.h"
#include "library/folder_import.h"

namespace gpux {

/// How the flags convert a decoder. Error usage: a flag that is about variants of other models.
importer::DecoderImport decoder_import_of(const evaluation::QuantizeFlags& flags, const LoadRequest& load);

/// Compares what the quantized decoder predicts with what the one of the folder `original` does, which is converted
/// into `scratch` for this, on the text of --texts or on recorded ones. Errors invalid_model: the perplexity increases
/// by more than --max-perplexity-ratio; of reading the text and of Runtime.
generation::QuantizationAgreement check_quantized(const std::filesystem::path& original,
                                                  const std::filesystem::path& quantized, const ImportRequest& request,
                                                  const std::filesystem::path& scratch);

/// Stores the folder of a decoder, after it was loaded and has generated a token. Errors invalid_model (it has no keys
/// and values as inputs), invalid_config, storage; of Runtime.
ImportedPackage store_decoder_folder(const std::filesystem::path& folder, const std::vector<Reference>& names,
                                     const ImportRequest& request, Store& store);

}  // namespace gpux
