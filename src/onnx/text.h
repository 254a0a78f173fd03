#pragma once

#include <string>
#include <string_view>

namespace gpux::onnx {

/// The text with U+FFFD for each byte that is not UTF-8.
std::string to_utf8(std::string_view bytes);

/// A name from a file, escaped for a one-line message: 'name', control characters and what is not UTF-8 as
/// "\x0a", shortened after about 80 bytes.
std::string quote(std::string_view name);

}  // namespace gpux::onnx
