#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "gpux/export.h"

namespace gpux {

/// What the caller can do about a failure. The number is the exit code of the command line.
enum class ErrorCode : int {
  internal = 1,              ///< A bug in gpux: report it.
  usage = 2,                 ///< The call or command line is wrong: correct it.
  invalid_config = 3,        ///< gpux.yml is wrong: edit it.
  invalid_model = 4,         ///< The model file cannot be used: get another.
  provider_unavailable = 5,  ///< A required provider cannot run here, or failed: install it or request another.
  invalid_input = 6,         ///< The data does not fit the model, or a node fails on it: correct the data.
  not_found = 7,             ///< No such model, name or file.
  resource_exhausted = 8,    ///< Memory or a queue is full: try later or with less.
  deadline_exceeded = 9,     ///< The deadline passed.
  network = 10,       ///< A port is in use, or a bus, server, hub or registry does not answer as it should: try later.
  permission = 11,    ///< Not allowed.
  storage = 13,       ///< Disk full, read-only or unreadable.
  interrupted = 130,  ///< Stopped by a signal.
};

/// The code's name in JSON and documents ("invalid_input").
GPUX_API std::string_view to_string(ErrorCode code) noexcept;

/// gpux's only error type. It can be thrown, stored for one request of a batch, or printed.
/// The message is one line: what was attempted, what was found and what is accepted. It may quote untrusted input:
/// control characters and bytes that are not UTF-8 are escaped as "\x1b".
class GPUX_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message);

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

  [[nodiscard]] std::string message() const { return what(); }

  [[nodiscard]] int exit_code() const noexcept { return static_cast<int>(code_); }

  /// The same error with a prefix: "context: message".
  [[nodiscard]] Error within(std::string_view context) const;

 private:
  ErrorCode code_;
};

}  // namespace gpux
