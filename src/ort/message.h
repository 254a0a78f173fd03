#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpux::ort {

/// Text that ONNX Runtime writes before the type of a node that failed in a run.
inline constexpr std::string_view node_failure_mark = "Non-zero status code returned while running ";

/// ONNX Runtime's message as one readable line: without its source files, function signatures and status codes, and a
/// node that failed in a run as "Gather node 'name': why".
std::string readable_message(std::string_view text);

/// The last error that ONNX Runtime logged on this thread, made readable, and forgotten by this call. Some bridges tell
/// the reason of a failure there only.
std::string take_logged_error();

/// Remembers an error that ONNX Runtime logged.
void remember_logged_error(std::string_view text);

/// A message that a provider logged about itself: "NameExecutionProvider: text".
struct Remark {
  std::string provider;  ///< ONNX Runtime's name
  std::string text;
};

/// Errors and remarks that were logged while a session was created.
struct SessionLog {
  /// The last error that was only logged. ONNX Runtime reports an error of a provider's GetCapability only in its
  /// log.
  std::string error;
  std::vector<Remark> remarks;  ///< messages of plugin providers, such as why they took no node
};

/// The last remarks that were logged on this thread, in order, forgotten by this call.
std::vector<Remark> take_remarks();

/// Remembers a warning where it is a provider's remark.
void remember_remark(std::string_view text);

}  // namespace gpux::ort
