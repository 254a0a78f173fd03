#pragma once

#include <string_view>

namespace gpux::onnx {

/// Recognizes a file that is not an ONNX model by its first bytes: "an HTML page", "a zip archive", …; empty if it is
/// not recognized.
std::string_view looks_like(std::string_view content) noexcept;

}  // namespace gpux::onnx
