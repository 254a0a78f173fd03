#include "base/utf8.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux {
namespace {

using namespace std::string_view_literals;

// UTF-32's little-endian mark begins with UTF-16's.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> other_marks{{
    {"\xff\xfe\0\0"sv, "UTF-32 (little-endian)"},
    {"\0\0\xfe\xff"sv, "UTF-32 (big-endian)"},
    {"\xff\xfe"sv, "UTF-16 (little-endian)"},
    {"\xfe\xff"sv, "UTF-16 (big-endian)"},
}};

// Empty where no other encoding's mark begins the text.
std::string_view marked_encoding(std::string_view text) noexcept {
  for (const auto& [mark, name] : other_marks) {
    if (text.starts_with(mark)) return name;
  }
  return {};
}

unsigned byte_at(std::string_view text, std::size_t index) noexcept {
  return static_cast<unsigned char>(text[index]);
}

// The encoding whose ASCII characters have NULs where these bytes have them; empty where they are no such pattern.
std::string_view encoding_with_nuls(std::string_view bytes, std::uint64_t offset) {
  constexpr std::size_t looked_at = 64;
  bytes = bytes.substr(0, looked_at);
  if (bytes.find("\0\0\0"sv) != std::string_view::npos) return "UTF-32";
  std::array<std::size_t, 2> counted{};  // at even and at odd offsets
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\0') ++counted.at((offset + i) % 2);
  }
  const auto [even, odd] = counted;
  if ((even != 0 && odd != 0) || even + odd < 2 || 5 * (even + odd) < 2 * bytes.size()) return {};
  return odd != 0 ? "UTF-16 (little-endian)" : "UTF-16 (big-endian)";
}

}  // namespace

char32_t utf8_code_point(std::string_view character) noexcept {
  const unsigned lead = byte_at(character, 0);
  if (character.size() == 1) return lead;
  char32_t code_point = lead & (0xffU >> (character.size() + 1));
  for (std::size_t i = 1; i < character.size(); ++i) code_point = code_point << 6 | (byte_at(character, i) & 0x3fU);
  return code_point;
}

std::size_t utf8_character(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const unsigned lead = byte_at(text, 0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf8 ? 0 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xc0U) != 0x80) return 0;
  }
  const char32_t code_point = utf8_code_point(text.substr(0, length));
  constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  return code_point < smallest[length] || surrogate || code_point > 0x10ffff ? 0 : length;
}

std::optional<std::size_t> find_non_utf8(std::string_view text) noexcept {
  const auto ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  const std::size_t whole = text.size();
  for (;;) {
    const auto rest = std::find_if_not(text.begin(), text.end(), ascii);
    text.remove_prefix(static_cast<std::size_t>(rest - text.begin()));
    if (text.empty()) return std::nullopt;
    const std::size_t length = utf8_character(text);
    if (length == 0) return whole - text.size();
    text.remove_prefix(length);
  }
}

bool is_utf8(std::string_view text) noexcept {
  return !find_non_utf8(text);
}

std::string utf8_problem(std::string_view text, std::uint64_t offset) {
  if (offset == 0) {
    if (const std::string_view name = marked_encoding(text); !name.empty()) {
      return fmt::format("{} by its byte order mark; accepted: UTF-8", name);
    }
  }
  const auto at = find_non_utf8(text);
  if (!at) return {};
  return fmt::format("not UTF-8 at byte offset {} (0x{:02x}); accepted: UTF-8", offset + *at, byte_at(text, *at));
}

void require_utf8(std::string_view text) {
  if (!find_non_utf8(text)) return;
  throw Error(ErrorCode::invalid_input, utf8_problem(text));
}

std::string file_text_problem(std::string_view text, std::uint64_t offset) {
  const std::size_t at = text.find('\0');
  const bool is_marked = offset == 0 && !marked_encoding(text).empty();
  if (at == std::string_view::npos || is_marked || find_non_utf8(text.substr(0, at))) return utf8_problem(text, offset);
  const std::size_t begin = at == 0 ? 0 : at - 1;
  const std::string_view encoding = encoding_with_nuls(text.substr(begin), offset + begin);
  return fmt::format("a NUL character at byte offset {}{}; accepted: UTF-8", offset + at,
                     encoding.empty() ? "" : fmt::format(", as in {} without a byte order mark", encoding));
}

bool Utf8Scan::take_long(unsigned char byte) noexcept {
  if (missing_ == 0) size_ = 0;
  bytes_[size_++] = static_cast<char>(byte);
  if (missing_ != 0) {
    if (byte < lowest_ || byte > highest_) return false;
    lowest_ = 0x80;
    highest_ = 0xbf;
    if (--missing_ == 0) size_ = 0;
    return true;
  }
  if (byte < 0xc2 || byte > 0xf4) return false;
  missing_ = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
  // Overlong forms, surrogates and what lies above U+10FFFF are told by the second byte.
  if (byte == 0xe0) lowest_ = 0xa0;
  if (byte == 0xed) highest_ = 0x9f;
  if (byte == 0xf0) lowest_ = 0x90;
  if (byte == 0xf4) highest_ = 0x8f;
  return true;
}

namespace {

// Beyond ASCII: the controls of C1, and embeddings, overrides and isolates of direction.
bool is_obeyed(char32_t code_point) noexcept {
  return (code_point >= 0x80 && code_point < 0xa0) || (code_point >= 0x202a && code_point <= 0x202e) ||
         (code_point >= 0x2066 && code_point <= 0x2069);
}

/// `is_blank`: of a line break or a tab, whether it becomes a blank.
template <typename IsBlank>
std::string shown(std::string_view text, const IsBlank& is_blank) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_character(text);
    const unsigned first = byte_at(text, 0);
    if (is_blank(text.front())) {
      result += ' ';
    } else if (first == '\n' || first == '\t') {
      result += text.front();
    } else if (length == 0 || first < 0x20 || first == 0x7f) {
      result += fmt::format("\\x{:02x}", first);
    } else if (const char32_t point = utf8_code_point(text.substr(0, length)); is_obeyed(point)) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(point));
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace

std::string shown_on_terminal(std::string_view text) {
  return shown(text, [](char /*c*/) { return false; });
}

std::string one_line(std::string_view text) {
  return shown(text, [](char c) { return c == '\n' || c == '\r' || c == '\t'; });
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto continuation = [&](unsigned shift) { out += static_cast<char>(0x80U | ((code_point >> shift) & 0x3fU)); };
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += static_cast<char>(0xc0U | (code_point >> 6));
    continuation(0);
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xe0U | (code_point >> 12));
    continuation(6);
    continuation(0);
  } else {
    out += static_cast<char>(0xf0U | (code_point >> 18));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

}  // namespace gpux
