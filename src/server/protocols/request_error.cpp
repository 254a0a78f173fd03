#include "server/protocols/request_error.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gpux::server {
namespace {

// Settings whose members have other names, or the same.
constexpr std::array<std::pair<std::string_view, std::string_view>, 21> setting_members{{
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
    {"prompt_log_probabilities", "prompt_logprobs"},
    {"ignores_end", "ignore_eos"},
    {"min_tokens", "min_tokens"},
    {"max_tokens", "max_tokens"},
    {"cache_salt", "cache_salt"},
    {"bad_words", "bad_words"},
    {"tools", "tools"},
    {"answers", "n"},
    {"template_values", "chat_template_kwargs"},
    {"continues_last_message", "continue_final_message"},
}};

std::optional<std::string_view> member_of_setting(std::string_view name, const NamedMembers& members) {
  if (name == "reasoning" && !members.reasoning.empty()) return members.reasoning;
  for (const std::span<const std::pair<std::string_view, std::string_view>> table :
       {members.settings, std::span<const std::pair<std::string_view, std::string_view>>(setting_members)}) {
    const auto row = std::ranges::find(table, name, &std::pair<std::string_view, std::string_view>::first);
    if (row != table.end()) return row->second;
  }
  return std::nullopt;
}

std::string joined(const std::string& member, std::string_view what) {
  const bool has_gap = member.empty() || what.starts_with(':') || what.starts_with(' ');
  return member + (has_gap ? "" : " ") + std::string(what);
}

}  // namespace

RequestError::RequestError(std::string member, std::string_view what, MemberProblem problem)
    : RequestError(Error(ErrorCode::invalid_input, joined(member, what)), member, problem) {}

RequestError::RequestError(const Error& error, std::string member, MemberProblem problem)
    : Error(error.code(), {.kind = Subject::Kind::member, .name = member}, error.message()),
      member_(std::move(member)),
      problem_(problem) {}

std::optional<RequestError> error_of_member(const Error& error, const NamedMembers& members) {
  const bool is_of_request = error.code() == ErrorCode::invalid_input || error.code() == ErrorCode::usage;
  const Subject* const subject = error.subject();
  if (!is_of_request || subject == nullptr) return std::nullopt;
  switch (subject->kind) {
    case Subject::Kind::setting:
      if (const auto member = member_of_setting(subject->name, members)) {
        const auto name_in_request = [&](const Subject& named) {
          const auto found =
              named.kind == Subject::Kind::setting ? member_of_setting(named.name, members) : std::nullopt;
          return found ? std::string(*found) : to_string(named);
        };
        return RequestError(Error(ErrorCode::invalid_input, error.message(name_in_request)), std::string(*member),
                            MemberProblem::invalid);
      }
      return std::nullopt;
    case Subject::Kind::prompt:
      return RequestError(error, members.prompt,
                          subject->name == "length" ? MemberProblem::too_long : MemberProblem::invalid);
    case Subject::Kind::constraint:
      return RequestError(error, members.form, MemberProblem::invalid);
    case Subject::Kind::member:
    case Subject::Kind::file:
    case Subject::Kind::device:
      break;
  }
  return std::nullopt;
}

}  // namespace gpux::server
