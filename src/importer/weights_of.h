#pragma once

#include <filesystem>

namespace gpux::importer {

/// The file with the weights of a folder that is to be converted, which are in `transformer`, a folder of it. Errors
/// usage (it holds ONNX already), not_found (it has no model.safetensors).
[[nodiscard]] std::filesystem::path weights_of(const std::filesystem::path& folder,
                                               const std::filesystem::path& transformer);

}  // namespace gpux::importer
