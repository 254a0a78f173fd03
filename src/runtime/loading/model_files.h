#pragma once

#include <filesystem>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/options.h"

/// The files that a model consists of.
namespace gpux::runtime {

/// The ONNX file and those that it names beside it: external data, and what providers compiled for it.
/// `info`: of that file. Errors as of onnx::context_files().
std::vector<std::filesystem::path> files_of(const std::filesystem::path& model, const ModelInfo& info);

/// All that a load with these options may read: of the model, of the steps around it, and of what runs in its place.
/// Absolute paths, each once. Errors as of ModelInspector.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& model, const LoadOptions& options);

}  // namespace gpux::runtime
