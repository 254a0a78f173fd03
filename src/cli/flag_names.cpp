#include "cli/flag_names.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace gpux::cli {
namespace {

// Settings whose flags have other names.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> other_names{{
    {"custom_operator_libraries", "--custom-ops"},
    {"provider_libraries", "--provider-library"},
    {"stop_tokens", "--stop-token"},
    {"ignores_end", "--ignore-eos"},
}};

}  // namespace

std::string flag_name(const Subject& subject) {
  if (subject.kind != Subject::Kind::setting) return to_string(subject);
  for (const auto& [setting, flag] : other_names) {
    if (subject.name == setting) return std::string(flag);
  }
  std::string flag = "--" + subject.name;
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string message_of(const Error& error) {
  return error.message(flag_name);
}

std::string line_of(const Verdict& verdict) {
  return to_line(verdict, flag_name);
}

std::string json_text_of(const Verdict& verdict) {
  return to_json(verdict, flag_name);
}

}  // namespace gpux::cli
