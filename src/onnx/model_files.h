#pragma once

#include <filesystem>
#include <vector>

#include "gpux/model_info.h"

namespace gpux::onnx {

/// The files that a model consists of: the ONNX file and those that it names beside it, which are external data and
/// what providers compiled for it. `info`: of that file. Errors as of context_files().
std::vector<std::filesystem::path> files_of(const std::filesystem::path& model, const ModelInfo& info);

}  // namespace gpux::onnx
