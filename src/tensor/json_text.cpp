#include "tensor/json_text.h"

#include <cstdint>
#include <optional>

#include "base/utf8.h"
#include "base/utf8_prefix.h"

namespace gpux {
namespace {

void skip_digits(JsonCursor& cursor) noexcept {
  while (is_json_digit(cursor.peek())) ++cursor.at;
}

std::optional<char32_t> read_four_hex_digits(JsonCursor& cursor) noexcept {
  if (cursor.rest().size() < 4) return std::nullopt;
  char32_t code_unit = 0;
  for (int i = 0; i < 4; ++i, ++cursor.at) {
    const char digit = *cursor.at;
    const char letter = static_cast<char>(digit | 0x20);
    if (is_json_digit(digit)) {
      code_unit = code_unit * 16 + static_cast<char32_t>(digit - '0');
    } else if (letter >= 'a' && letter <= 'f') {
      code_unit = code_unit * 16 + static_cast<char32_t>(letter - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return code_unit;
}

bool is_high_surrogate(char32_t unit) noexcept {
  return unit >= 0xd800 && unit <= 0xdbff;
}

bool is_low_surrogate(char32_t unit) noexcept {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

const char* read_unicode_escape(JsonCursor& cursor, std::string& out) {
  constexpr const char* not_hex = "\\u takes four hexadecimal digits";
  constexpr const char* lone = "half of a surrogate pair stands alone";
  const auto unit = read_four_hex_digits(cursor);
  if (!unit) return not_hex;
  if (is_low_surrogate(*unit)) return lone;
  if (!is_high_surrogate(*unit)) {
    append_utf8(out, *unit);
    return nullptr;
  }
  if (!cursor.take('\\') || !cursor.take('u')) return lone;
  const auto second = read_four_hex_digits(cursor);
  if (!second) return not_hex;
  if (!is_low_surrogate(*second)) return lone;
  append_utf8(out, 0x10000 + ((*unit - 0xd800) << 10) + (*second - 0xdc00));
  return nullptr;
}

const char* read_escape(JsonCursor& cursor, std::string& out) {
  constexpr std::string_view letters = "\"\\/bfnrt";
  constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
  const char letter = cursor.peek();
  if (!cursor.done()) ++cursor.at;
  if (letter == 'u') return read_unicode_escape(cursor, out);
  const std::size_t index = letters.find(letter);
  if (index == std::string_view::npos) return "a backslash is followed by none of \" \\ / b f n r t u";
  out += meanings[index];
  return nullptr;
}

}  // namespace

bool is_json_number(std::string_view word) noexcept {
  JsonCursor cursor(word);
  cursor.take('-');
  if (!is_json_digit(cursor.peek())) return false;
  if (!cursor.take('0')) skip_digits(cursor);
  if (cursor.take('.')) {
    if (!is_json_digit(cursor.peek())) return false;
    skip_digits(cursor);
  }
  if (cursor.take('e') || cursor.take('E')) {
    if (!cursor.take('+')) cursor.take('-');
    if (!is_json_digit(cursor.peek())) return false;
    skip_digits(cursor);
  }
  return cursor.done();
}

std::string json_excerpt(std::string_view text) {
  constexpr std::size_t longest = 40;
  if (text.empty()) return "the end of the text";
  std::size_t length = 1;
  if (text.front() == '"') {
    while (length < text.size() && length <= longest && text[length] != '"') ++length;
    if (length < text.size() && text[length] == '"') ++length;
  } else if (!ends_json_word(text.front())) {
    while (length < text.size() && length <= longest && !ends_json_word(text[length])) ++length;
  }
  // What cannot be shown takes more than one character.
  const std::string excerpt = one_line(utf8_prefix(text, length));
  if (length <= longest && excerpt.size() <= longest) return excerpt;
  return std::string(utf8_prefix(excerpt, longest - 3)) + "...";
}

const char* read_json_string(JsonCursor& cursor, std::string& out) {
  out.clear();
  ++cursor.at;
  const char* piece = cursor.at;
  unsigned char high_bits = 0;
  const auto take_piece = [&] { out.append(piece, cursor.at); };
  while (!cursor.done()) {
    const auto character = static_cast<unsigned char>(*cursor.at);
    if (character == '"') {
      take_piece();
      ++cursor.at;
      return high_bits < 0x80 || is_utf8(out) ? nullptr : "the string is not UTF-8";
    }
    if (character < 0x20) return "a string has a control character: write it as an escape";
    if (character == '\\') {
      take_piece();
      ++cursor.at;
      if (const char* failure = read_escape(cursor, out)) return failure;
      piece = cursor.at;
      continue;
    }
    high_bits |= character;
    ++cursor.at;
  }
  return "the string has no end";
}

}  // namespace gpux
