#pragma once

#include <string>
#include <string_view>
#include <thread>

#include "base/unique_fd.h"

namespace gpux::isolation {

/// The standard error of a worker: a pipe, of which a thread passes on what comes to the standard error of this
/// process. A worker that had that one itself could cut the file that it may be, or control the terminal.
class ErrorStream {
 public:
  /// Error resource_exhausted.
  ErrorStream();
  /// Passes on what is left, once. The worker has ended.
  ~ErrorStream();
  ErrorStream(const ErrorStream&) = delete;
  ErrorStream& operator=(const ErrorStream&) = delete;

  /// For the worker, which is given it when it is started.
  [[nodiscard]] int writing_end() const noexcept { return writing_.get(); }

  /// Closes this process's writing end: only the reading end is left.
  void close_writing_end() noexcept { writing_.reset(); }

 private:
  void pass_on() noexcept;

  UniqueFd reading_, writing_, ended_;
  std::thread thread_;
};

/// The text with "?" in the place of control characters other than line ends and tabs: terminals obey them. Pure.
std::string without_control_characters(std::string_view text);

}  // namespace gpux::isolation
