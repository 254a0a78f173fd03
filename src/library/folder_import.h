#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/folder_variants.h"
#include "evaluation/made_variant.h"
#include "generation/quantization_gate.h"
#include "gpux/verdict.h"
#include "importer/imported_model.h"
#include "model/load_settings.h"
#include "store/store.h"

namespace gpux {

/// A folder of Hugging Face's layout that is to become a model, as typed.
struct ImportRequest {
  std::string folder;
  std::string output;             ///< a new folder for the model; empty: the store alone
  std::string file;               ///< the ONNX file of the folder that is the model; empty: the one that is found
  std::string reranker;           ///< "qwen3": how a causal language model reads pairs; empty: as its model card says
  std::vector<std::string> tags;  ///< names in the store; none: not stored
  LoadRequest load;
  evaluation::QuantizeFlags quantize;
  std::string package_name;         ///< the model's own name; empty: the first of the tags
  std::int64_t context_length = 0;  ///< as importer::DecoderImport::context_length
  PackageOrigin origin;             ///< where the folder came from, to be recorded
};

/// Result of an import: the stored package.
struct ImportedPackage {
  StoredModel stored;
  std::size_t dimension = 0;  ///< of its embeddings; 0: it makes none
  std::string task;           ///< where it makes none
  bool takes_images = false;  ///< in place of texts or, with two towers, besides
  bool has_two_towers = false;
  Verdict verdict;
  std::optional<evaluation::MadeVariant> variant;
  evaluation::FolderVariants beside;
};

struct ImportedFolder {
  std::optional<importer::ImportedModel> converted;               ///< where its weights were not ONNX yet
  std::optional<generation::QuantizationAgreement> quantization;  ///< of a decoder with quantized weights
  std::optional<ImportedPackage> package;                         ///< where it was stored
  std::vector<Reference> names;
};

/// Whether the folder's model is an ONNX file already.
bool is_onnx_folder(const std::filesystem::path& folder);

/// Whether files in other precisions are beside its ONNX file.
bool has_variants(const ImportRequest& request);

/// Refuses a folder without the data of its weights that import_folder() would refuse because of its settings:
/// `is_onnx` for one whose ONNX file is still to come, otherwise as importer::require_importable(). `reranker` is as in
/// ImportRequest. Gives the size of
/// the ONNX files that conversion makes; 0: none is made. Errors usage, not_found, invalid_model, invalid_config.
std::uint64_t require_importable_folder(const std::filesystem::path& folder, bool is_onnx,
                                        const std::string& reranker = {});

/// Converts, checks by loading, and stores. Errors usage, not_found, invalid_model, invalid_config, storage; of Runtime
/// and evaluation::make_variant().
ImportedFolder import_folder(const ImportRequest& request, Store& store,
                             const evaluation::VariantListener& listener = {});

}  // namespace gpux
