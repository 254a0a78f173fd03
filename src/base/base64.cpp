#include "base/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace gpux {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t no_digit = 0xff;

constexpr std::array<std::uint8_t, 256> digits_of_alphabet() {
  std::array<std::uint8_t, 256> digits{};
  digits.fill(no_digit);
  for (std::size_t i = 0; i < alphabet.size(); ++i) {
    digits.at(static_cast<unsigned char>(alphabet[i])) = static_cast<std::uint8_t>(i);
  }
  return digits;
}

}  // namespace

std::string to_base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8U | (i < count ? std::to_integer<unsigned>(bytes[at + i]) : 0);
    for (std::size_t i = 0; i < 4; ++i) text += i <= count ? alphabet[group >> (18 - 6 * i) & 63U] : '=';
  }
  return text;
}

std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  static constexpr std::array<std::uint8_t, 256> digits = digits_of_alphabet();
  std::vector<std::byte> bytes(text.size() / 4 * 3 - padding);
  std::size_t written = 0;
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < text.size() - padding; ++i) {
    const std::uint8_t digit = digits[static_cast<unsigned char>(text[i])];
    if (digit == no_digit) return std::nullopt;
    group = group << 6U | digit;
    if (i % 4 == 0) continue;
    bytes[written++] = static_cast<std::byte>(group >> (6 - 2 * (i % 4)) & 0xffU);
  }
  return bytes;
}

}  // namespace gpux
