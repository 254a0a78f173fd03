#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpux/error.h"

namespace gpux::server {

/// What is wrong with a member of a request's body.
enum class MemberProblem : std::uint8_t {
  invalid,
  missing,
  unknown,
  too_long,  ///< it has more tokens than the model's context
};

/// Error invalid_input that names the member of the body, for protocols whose errors have a place for it.
class RequestError : public Error {
 public:
  /// `member`: its path, as "messages[0].role". The message is the member and `what`, with a space between them unless
  /// `what` begins with a colon or a space, or the member is empty.
  RequestError(std::string member, std::string_view what, MemberProblem problem);

  /// The same error, for a member that its message does not begin with.
  RequestError(const Error& error, std::string member, MemberProblem problem);

  [[nodiscard]] const std::string& member() const noexcept { return member_; }

  [[nodiscard]] MemberProblem problem() const noexcept { return problem_; }

 private:
  std::string member_;
  MemberProblem problem_;
};

/// What the library says of one of GenerationSettings, by the name that the member has in requests for texts
/// ("stop_token_ids" for stop_tokens); empty where the message does not begin with a setting. Pure.
[[nodiscard]] std::optional<RequestError> error_of_setting(const Error& error);

}  // namespace gpux::server
