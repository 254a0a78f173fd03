#include "server/http/header_value.h"

#include "server/http/message.h"

namespace gpux::http {
namespace {

// What stands behind the first quote, with its escapes undone; empty where there is no closing one.
std::optional<std::string> unquoted(std::string_view text) {
  std::string value;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') return value;
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    value += text[i];
  }
  return std::nullopt;
}

// Where a parameter ends: at a ';' that is not quoted.
std::size_t end_of_parameter(std::string_view text) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && quoted) {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (text[i] == ';' && !quoted) {
      return i;
    }
  }
  return text.size();
}

}  // namespace

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::string_view kind_of(std::string_view value) noexcept {
  return trimmed(value.substr(0, value.find(';')));
}

std::optional<std::string> parameter_of(std::string_view value, std::string_view name) {
  for (std::size_t at = end_of_parameter(value); at < value.size();) {
    value.remove_prefix(at + 1);
    at = end_of_parameter(value);
    const std::string_view parameter = trimmed(value.substr(0, at));
    const std::size_t equals = parameter.find('=');
    if (equals == std::string_view::npos || !same_name(trimmed(parameter.substr(0, equals)), name)) continue;
    const std::string_view said = trimmed(parameter.substr(equals + 1));
    return said.starts_with('"') ? unquoted(said) : std::string(said);
  }
  return std::nullopt;
}

}  // namespace gpux::http
