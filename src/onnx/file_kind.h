#pragma once

#include <string_view>

namespace gpux::onnx {

/// What a file that is no ONNX model looks like, from its first bytes: "an HTML page", "a zip archive", …; empty where
/// nothing can be said.
std::string_view looks_like(std::string_view content) noexcept;

}  // namespace gpux::onnx
