#include "gpux/error.h"

#include "base/error_number.h"
#include "base/utf8.h"

namespace gpux {

ErrorCode error_code_of(std::int32_t number) noexcept {
  const auto code = static_cast<ErrorCode>(number);
  switch (code) {
    case ErrorCode::internal:
    case ErrorCode::usage:
    case ErrorCode::invalid_config:
    case ErrorCode::invalid_model:
    case ErrorCode::provider_unavailable:
    case ErrorCode::invalid_input:
    case ErrorCode::not_found:
    case ErrorCode::resource_exhausted:
    case ErrorCode::deadline_exceeded:
    case ErrorCode::network:
    case ErrorCode::permission:
    case ErrorCode::storage:
    case ErrorCode::interrupted:
      return code;
  }
  return ErrorCode::internal;
}

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::internal:
      return "internal";
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::invalid_config:
      return "invalid_config";
    case ErrorCode::invalid_model:
      return "invalid_model";
    case ErrorCode::provider_unavailable:
      return "provider_unavailable";
    case ErrorCode::invalid_input:
      return "invalid_input";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::resource_exhausted:
      return "resource_exhausted";
    case ErrorCode::deadline_exceeded:
      return "deadline_exceeded";
    case ErrorCode::network:
      return "network";
    case ErrorCode::permission:
      return "permission";
    case ErrorCode::storage:
      return "storage";
    case ErrorCode::interrupted:
      return "interrupted";
  }
  return "internal";
}

Error::Error(ErrorCode code, const std::string& message) : std::runtime_error(one_line(message)), code_(code) {}

Error Error::within(std::string_view context) const {
  return {code_, std::string(context) + ": " + what()};
}

}  // namespace gpux
