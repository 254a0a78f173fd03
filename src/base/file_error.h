#pragma once

#include <utility>

#include "gpux/error.h"

namespace gpux {

/// Error of a file operation, thrown by throw_file_error().
class FileError : public Error {
 public:
  FileError(ErrorCode code, Message message, int error_number)
      : Error(code, std::move(message)), error_number_(error_number) {}

  [[nodiscard]] int error_number() const noexcept { return error_number_; }

 private:
  int error_number_;
};

}  // namespace gpux
