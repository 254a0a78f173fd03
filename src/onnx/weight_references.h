#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace gpux::onnx {

/// The model of the ONNX file `path`, in which the data of each large initializer is replaced by a reference to its
/// position in that file, as external data (onnx.proto, TensorProto.external_data). ONNX Runtime maps such data into
/// memory, where it reads and copies what the model itself contains. Locations are relative to the folder of `path`.
/// Empty where the file has less than 1 MiB of such data, or is no model that can be read. Errors as MappedFile.
std::optional<std::string> with_weight_references(const std::filesystem::path& path);

}  // namespace gpux::onnx
