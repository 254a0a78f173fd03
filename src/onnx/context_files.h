#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gpux::onnx {

/// The files that nodes of type EPContext name: what a provider compiled and did not put into the node itself
/// (ep_cache_context, where embed_mode is 0), and the model that it was compiled from (onnx_model_filename). Relative
/// to the model's folder, each once; names that lead out of it are left out. Errors as of inspect().
std::vector<std::string> context_files(const std::filesystem::path& path);

}  // namespace gpux::onnx
