#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/options.h"

/// The files that a model consists of.
namespace gpux::runtime {

/// The ONNX file and those that it names beside it: external data, and what providers compiled for it.
/// `info`: of that file. Errors as of onnx::context_files().
std::vector<std::filesystem::path> files_of(const std::filesystem::path& model, const ModelInfo& info);

/// The content of files_of(), as provider::model_digest(). Errors as of files_of() and of reading.
std::string digest_of(const std::filesystem::path& model, const ModelInfo& info);

/// All that a load with these options may read: of the model, of the steps around it, and of what runs in its place.
/// Absolute paths, each once. Of a file that is no model, itself: the load says so, if it is needed.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& model, const LoadOptions& options);

}  // namespace gpux::runtime
