#include "server/requests/api_keys.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/spelling.h"
#include "base/utf8.h"
#include "gpux/error.h"

namespace gpux::server {
namespace {

// Compares all of both, so that the time taken does not tell where they differ.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned char differs = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differs = static_cast<unsigned char>(differs | (a[i] ^ (b.empty() ? '\0' : b[i % b.size()])));
  }
  return differs == 0;
}

constexpr std::size_t least_characters = 8;

// Without the blanks that HTTP would take off a key as well.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string& line : split(std::string(text), '\n')) {
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string::npos) lines.push_back(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
  }
  return lines;
}

void require_usable(const std::string& key, const std::string& source) {
  const bool can_be_sent =
      std::ranges::none_of(key, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (!can_be_sent) {
    throw Error(ErrorCode::usage, fmt::format("{}: a key has control characters, which no client can send", source));
  }
  if (key.size() < least_characters) {
    throw Error(ErrorCode::usage, fmt::format("{}: a key has less than {} characters", source, least_characters));
  }
}

}  // namespace

bool holds_key(std::span<const std::string> keys, std::string_view authorization, std::string_view x_api_key) {
  return keys.empty() || key_of(keys, authorization, x_api_key).has_value();
}

std::optional<std::size_t> key_of(std::span<const std::string> keys, std::string_view authorization,
                                  std::string_view x_api_key) {
  constexpr std::string_view scheme = "bearer ";
  std::string_view given = x_api_key;
  if (authorization.size() > scheme.size() && lower(authorization.substr(0, scheme.size())) == scheme) {
    given = authorization.substr(scheme.size());
  }
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (equal_in_constant_time(given, keys[i])) found = i;
  }
  return found;
}

std::string_view key_problem(std::string_view authorization, std::string_view x_api_key) noexcept {
  return authorization.empty() && x_api_key.empty() ? "an API key is needed" : "the API key is not accepted";
}

std::vector<std::string> keys_of_file(std::string_view text, const std::string& file) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  // A key with a NUL, or of UTF-16, no client can send: nobody would get in, and nothing would say why.
  if (const std::string problem = file_text_problem(text); !problem.empty()) {
    throw Error(ErrorCode::usage, fmt::format("{}: {}", file, problem));
  }
  std::vector<std::string> keys;
  for (std::string& line : lines_of(text)) {
    if (line.starts_with('#')) continue;
    require_usable(line, file);
    keys.push_back(std::move(line));
  }
  if (keys.empty()) throw Error(ErrorCode::usage, fmt::format("{} holds no key", file));
  return keys;
}

std::vector<std::string> keys_of_variable(std::string_view text) {
  std::vector<std::string> keys = lines_of(text);
  if (keys.empty()) {
    throw Error(ErrorCode::usage, "GPUX_API_KEY is set and has no key: set a key, or unset it to serve without keys");
  }
  for (const std::string& key : keys) {
    if (key.starts_with('#')) {
      throw Error(ErrorCode::usage, "GPUX_API_KEY begins with '#', which is a comment in a file of keys and no key");
    }
    require_usable(key, "GPUX_API_KEY");
  }
  return keys;
}

}  // namespace gpux::server
