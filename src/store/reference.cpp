#include "store/reference.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux {
namespace {

constexpr std::size_t limit_name = 255;
constexpr std::size_t limit_tag = 128;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || is_digit(c);
}

bool is_separator(std::string_view text) {
  return text == "." || text == "_" || text == "__" || text.find_first_not_of('-') == std::string_view::npos;
}

bool is_name_part(std::string_view part) {
  if (part.empty() || !is_alphanumeric(part.front()) || !is_alphanumeric(part.back())) return false;
  while (!part.empty()) {
    const auto* word_end = std::find_if_not(part.begin(), part.end(), is_alphanumeric);
    const auto* next_word = std::find_if(word_end, part.end(), is_alphanumeric);
    if (word_end != part.end() && !is_separator({word_end, next_word})) return false;
    part = {next_word, part.end()};
  }
  return true;
}

bool is_host_with_port(std::string_view part) {
  const std::size_t colon = part.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view port = part.substr(colon + 1);
  return is_name_part(part.substr(0, colon)) && !port.empty() && port.size() <= 5 &&
         std::all_of(port.begin(), port.end(), is_digit);
}

bool is_name(std::string_view name) {
  if (name.size() > limit_name) return false;
  for (bool first = true;; first = false) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    const bool host = first && slash != std::string_view::npos && is_host_with_port(part);
    if (!host && !is_name_part(part)) return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

bool is_tag(std::string_view tag) {
  const auto word = [](char c) { return is_alphanumeric(c) || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !tag.empty() && tag.size() <= limit_tag && word(tag.front()) &&
         std::all_of(tag.begin(), tag.end(), [&](char c) { return word(c) || c == '.' || c == '-'; });
}

}  // namespace

Reference parse_reference(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  const std::size_t colon = text.find(':', slash == std::string_view::npos ? 0 : slash);
  const std::string_view name = text.substr(0, colon);
  if (!is_name(name)) {
    const std::string lowered = lower(name);
    const std::string hint = is_name(lowered) ? fmt::format("; did you mean '{}'?", lowered) : "";
    throw Error(ErrorCode::usage,
                fmt::format("{} is not a model's name: lower-case letters and digits with '.', '_', '-' or '/' between "
                            "them are accepted, and a tag behind ':'{}",
                            in_quotes(text), hint));
  }
  if (colon == std::string_view::npos) return {std::string(name), "latest"};
  const std::string_view tag = text.substr(colon + 1);
  if (!is_tag(tag)) {
    throw Error(ErrorCode::usage, fmt::format("{} is not a tag: up to {} letters, digits, '_', '.' and '-' are "
                                              "accepted, not beginning with '.' or '-'",
                                              in_quotes(tag), limit_tag));
  }
  return {std::string(name), std::string(tag)};
}

std::string_view id_digits(std::string_view text) noexcept {
  constexpr std::string_view kind = "sha256:";
  constexpr std::size_t min_digits = 4, all_digits = 64;
  if (text.starts_with(kind)) text.remove_prefix(kind.size());
  const bool is_hexadecimal = text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return is_hexadecimal && text.size() >= min_digits && text.size() <= all_digits ? text : std::string_view();
}

}  // namespace gpux
