#include "server/models/path_redaction.h"

#include <algorithm>

namespace gpux::server {
namespace {

bool is_word(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_blank(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

constexpr std::string_view quotes = "'\"`";

// How many characters at the front lead to a path's first slash: 0 of "/a", 1 of "./a" and "~/a", 2 of "../a"; npos
// where no path begins.
std::size_t lead(std::string_view text) noexcept {
  for (const std::string_view start : {"/", "./", "../", "~/"}) {
    if (!text.starts_with(start)) continue;
    const std::string_view rest = text.substr(start.size());
    // A slash alone is division, or an "or".
    if (rest.empty() || is_blank(rest.front())) return std::string_view::npos;
    return start.size() - 1;
  }
  return std::string_view::npos;
}

// Where an unquoted path can end at the latest.
std::size_t end_of_phrase(std::string_view text) noexcept {
  for (std::size_t end = 0; end < text.size(); ++end) {
    const char c = text[end];
    if (std::string_view("\n\r;,)]}>").find(c) != std::string_view::npos || quotes.find(c) != std::string_view::npos) {
      return end;
    }
    // "model.onnx: No such file", "model.cc:146 load"
    const char next = end + 1 < text.size() ? text[end + 1] : ' ';
    if (c == ':' && (is_blank(next) || (next >= '0' && next <= '9'))) return end;
  }
  return text.size();
}

// Where the path ends that begins at the front of `text`, behind the character `before`.
std::size_t path_length(std::string_view text, char before) noexcept {
  if (quotes.find(before) != std::string_view::npos) return std::min(text.find(before), text.size());
  const std::string_view phrase = text.substr(0, end_of_phrase(text));
  // A later word with a slash inside belongs to it: the path has blanks.
  std::size_t end = std::min(phrase.find(' '), phrase.size());
  for (std::size_t word = end; word < phrase.size();) {
    const std::size_t begin = phrase.find_first_not_of(' ', word);
    if (begin == std::string_view::npos || lead(phrase.substr(begin)) != std::string_view::npos) break;
    word = std::min(phrase.find(' ', begin), phrase.size());
    if (phrase.substr(begin, word - begin).find('/') != std::string_view::npos) end = word;
  }
  return end;
}

}  // namespace

std::string without_paths(std::string_view message) {
  std::string out;
  char before = ' ';
  for (std::size_t i = 0; i < message.size();) {
    const std::string_view rest = message.substr(i);
    const bool is_address = before == ':' && rest.starts_with("//") && !out.ends_with("file:");
    const bool may_begin = !is_word(before) && before != '.' && before != '/' && !is_address;
    if (!may_begin || lead(rest) == std::string_view::npos) {
      if (is_address) {
        // Both slashes, so that the second one begins no path.
        out += "//";
        before = 'x';
        i += 2;
        continue;
      }
      before = message[i];
      out += message[i++];
      continue;
    }
    std::size_t length = path_length(rest, before);
    std::string_view path = rest.substr(0, length);
    while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
    const std::size_t slash = path.rfind('/');
    std::string_view name = path.substr(slash + 1);
    out += name;
    i += length;
    before = name.empty() ? '/' : name.back();
  }
  return out;
}

}  // namespace gpux::server
