#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "checkpoint/exported_files.h"
#include "checkpoint/sentence_model.h"
#include "evaluation/kept_variant.h"
#include "evaluation/made_variant.h"

namespace gpux::evaluation {

/// A file of the folder whose outputs are within the tolerance of the model's.
struct FoundVariant {
  KeptVariant kept;
  std::string file;  ///< relative to the folder
};

struct FolderVariants {
  std::vector<FoundVariant> found;
  std::vector<LeftOutFile> left_out;
  std::string what;  ///< that the cosines are of
};

/// The files beside `onnx_file` by their names; none where it is not called model.onnx.
ExportedFiles files_beside(const std::filesystem::path& folder, const std::filesystem::path& onnx_file);

/// The files next to `onnx_file` in another precision that pass the gate with VariantSamples; not in the precision
/// that --quantize makes. Errors are those of the model and the
/// samples: a file that cannot be used is left out.
FolderVariants folder_variants(const std::filesystem::path& folder, const std::filesystem::path& onnx_file,
                               const std::optional<checkpoint::SentenceModel>& sentences, const QuantizeFlags& flags,
                               const LoadRequest& load, const LoadOptions& options, const VariantListener& listener);

/// A message with one line per variant; empty if there is none.
std::string report_of(const FolderVariants& variants, const NameOfSubject& name_of);
nlohmann::ordered_json json_of(const FolderVariants& variants, const NameOfSubject& name_of);

}  // namespace gpux::evaluation
