#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "gpux/error.h"

namespace gpux::server {

/// Kind of problem of a member of a request's body.
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

  /// `error` as an error about `member`; the message stays as it is.
  RequestError(const Error& error, std::string member, MemberProblem problem);

  [[nodiscard]] const std::string& member() const noexcept { return member_; }

  [[nodiscard]] MemberProblem problem() const noexcept { return problem_; }

 private:
  std::string member_;
  MemberProblem problem_;
};

/// Members of a request for texts that have other names in other protocols.
struct NamedMembers {
  std::string prompt;     ///< "messages", "prompt"
  std::string form;       ///< what the form of the answer comes from: "response_format", "tools"
  std::string reasoning;  ///< what ChatOptions::reasoning comes from: "reasoning_effort", "think"
  /// Settings whose members have other names than in most protocols: {"max_tokens", "max_output_tokens"}. Static.
  std::span<const std::pair<std::string_view, std::string_view>> settings = {};
};

/// The library's error about a setting, the prompt or the form of the answer, as one about the member of the request
/// that it comes from ("stop_token_ids" for stop_tokens), and by its name; empty where it is about no member. Pure.
[[nodiscard]] std::optional<RequestError> error_of_member(const Error& error, const NamedMembers& members);

}  // namespace gpux::server
