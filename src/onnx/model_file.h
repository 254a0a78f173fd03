#pragma once

#include <filesystem>
#include <string_view>

#include "gpux/model_info.h"

namespace gpux::onnx {

/// The content of the .onnx file `path`, without an ONNX Runtime session and without reading the weights: the time
/// depends on the number of nodes and tensors, not on their size.
/// - The signature leaves out initializers that an IR version below 4 lists among the inputs: they are constants.
///   Inputs with an initializer of their name, and optionals, are not required.
/// - Operators and nodes count subgraphs (If, Loop, Scan, …) and local functions once each.
/// - Parameters are initializers, of subgraphs too; of sparse ones the stored values.
/// - External files are looked for beside the model, or beside the file that the model is a link to.
/// Errors: as MappedFile, but invalid_model for what is no file; and, with the place in it, where it is no ONNX model,
/// is damaged or lies about itself, or where external data is claimed outside the model's folder.
ModelInfo inspect(const std::filesystem::path& path);

/// Inspects the content of a file with the path `path`, which need not exist.
ModelInfo inspect(std::string_view content, const std::filesystem::path& path);

}  // namespace gpux::onnx
