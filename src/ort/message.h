#pragma once

#include <string>
#include <string_view>

namespace gpux::ort {

/// ONNX Runtime's words as one line for people: without its source files, function signatures and status codes.
std::string readable_message(std::string_view text);

/// The last error that ONNX Runtime logged on this thread, made readable, and forgotten by this call. Some bridges tell
/// the reason of a failure there only.
std::string take_logged_error();

/// Remembers an error that ONNX Runtime logged.
void remember_logged_error(std::string_view text);

}  // namespace gpux::ort
