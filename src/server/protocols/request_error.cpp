#include "server/protocols/request_error.h"

#include <array>
#include <utility>

namespace gpux::server {
namespace {

// Settings as the library's messages begin with them, and the members of requests.
constexpr std::array<std::pair<std::string_view, std::string_view>, 15> setting_members{{
    {"temperature", "temperature"},
    {"top_p", "top_p"},
    {"min_p", "min_p"},
    {"typical_p", "typical_p"},
    {"repetition_penalty", "repetition_penalty"},
    {"presence_penalty", "presence_penalty"},
    {"frequency_penalty", "frequency_penalty"},
    {"logit_bias", "logit_bias"},
    {"stop", "stop"},
    {"stop_tokens", "stop_token_ids"},
    {"top_log_probabilities", "top_logprobs"},
    {"ignores_end", "ignore_eos"},
    {"min_tokens", "min_tokens"},
    {"max_tokens", "max_tokens"},
    {"cache_salt", "cache_salt"},
}};

std::string joined(const std::string& member, std::string_view what) {
  const bool has_gap = member.empty() || what.starts_with(':') || what.starts_with(' ');
  return member + (has_gap ? "" : " ") + std::string(what);
}

}  // namespace

RequestError::RequestError(std::string member, std::string_view what, MemberProblem problem)
    : Error(ErrorCode::invalid_input, joined(member, what)), member_(std::move(member)), problem_(problem) {}

RequestError::RequestError(const Error& error, std::string member, MemberProblem problem)
    : Error(error), member_(std::move(member)), problem_(problem) {}

std::optional<RequestError> error_of_setting(const Error& error) {
  const std::string message = error.message();
  const std::string_view first = std::string_view(message).substr(0, message.find(' '));
  for (const auto& [setting, member] : setting_members) {
    if (first != setting) continue;
    return RequestError(std::string(member), std::string_view(message).substr(first.size()), MemberProblem::invalid);
  }
  return std::nullopt;
}

}  // namespace gpux::server
