#include "generation/token_bytes.h"

#include <array>
#include <charconv>
#include <optional>

namespace gpux::generation {
namespace {

constexpr unsigned byte_count = 256, first_substitute = 0x100, substitutes = 0x144 - 0x100;

bool spells_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

// The bytes that U+0100 and the letters behind it stand for: those that are no visible character, in order.
const std::array<unsigned char, substitutes>& substituted() {
  static const auto table = [] {
    std::array<unsigned char, substitutes> bytes{};
    std::size_t count = 0;
    for (unsigned byte = 0; byte < byte_count; ++byte) {
      if (!spells_itself(byte)) bytes.at(count++) = static_cast<unsigned char>(byte);
    }
    return bytes;
  }();
  return table;
}

// One or two bytes of UTF-8, which all letters of byte-level BPE have.
std::optional<unsigned> next_letter(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text.front());
  constexpr unsigned lead_of_two = 0xc0, after_leads_of_two = 0xe0, payload = 0x1f, low_payload = 0x3f, low_bits = 6;
  if (first < 0x80) {
    text.remove_prefix(1);
    return first;
  }
  if (first < lead_of_two || first >= after_leads_of_two || text.size() < 2) return std::nullopt;
  const unsigned letter = (first & payload) << low_bits | (static_cast<unsigned char>(text[1]) & low_payload);
  text.remove_prefix(2);
  return letter;
}

std::string of_letters(std::string_view token) {
  std::string bytes;
  std::string_view rest = token;
  while (!rest.empty()) {
    const std::optional<unsigned> letter = next_letter(rest);
    if (letter && *letter < byte_count && spells_itself(*letter)) {
      bytes += static_cast<char>(*letter);
    } else if (letter && *letter >= first_substitute && *letter < first_substitute + substitutes) {
      bytes += static_cast<char>(substituted().at(*letter - first_substitute));
    } else {
      return std::string(token);  // added as a text
    }
  }
  return bytes;
}

std::string of_pieces(std::string_view token) {
  constexpr std::string_view space = "\xe2\x96\x81", start = "<0x";
  constexpr std::size_t byte_size = 6, hexadecimal = 16;
  if (token.size() == byte_size && token.starts_with(start) && token.ends_with('>')) {
    unsigned char byte = 0;
    const char* const digits = token.data() + start.size();
    if (std::from_chars(digits, digits + 2, byte, hexadecimal).ptr == digits + 2) return {static_cast<char>(byte)};
  }
  std::string bytes(token);
  for (std::size_t at = 0; (at = bytes.find(space, at)) != std::string::npos; ++at)
    bytes.replace(at, space.size(), " ");
  return bytes;
}

}  // namespace

TokenSpelling token_spelling(const text::Tokenizer& tokenizer) {
  constexpr std::string_view space = "\xc4\xa0";  // U+0120, the letter for a space
  return tokenizer.id(space) ? TokenSpelling::byte_level : TokenSpelling::sentence_piece;
}

std::string token_bytes(std::string_view token, TokenSpelling spelling) {
  return spelling == TokenSpelling::byte_level ? of_letters(token) : of_pieces(token);
}

}  // namespace gpux::generation
