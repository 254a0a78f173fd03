#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace gpux::onnx {

/// The model of the ONNX file `path`, in which the external data of subgraphs, functions and attributes is included.
/// ONNX Runtime reads such data by onnx's own loader, which refuses files that are links or have several names: those
/// of the store and of download caches. It maps external data of the main graph itself, so that stays outside.
/// Empty where the model needs none of this, or is no model that can be read. Errors invalid_model (the data is not
/// there, or the model would be too large), and as MappedFile.
std::optional<std::string> with_included_data(const std::filesystem::path& path);

}  // namespace gpux::onnx
