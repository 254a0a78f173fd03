#include "embedding/vector_encoding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "gpux/error.h"

namespace gpux::embedding {
namespace {

constexpr std::array<std::pair<std::string_view, VectorEncoding>, 4> names{{
    {"float", VectorEncoding::float32},
    {"int8", VectorEncoding::int8},
    {"binary", VectorEncoding::binary},
    {"base64", VectorEncoding::base64},
}};

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t bits_a_byte = 8;
constexpr std::uint8_t no_digit = 0xff;

constexpr std::array<std::uint8_t, 256> digits_of_alphabet() {
  std::array<std::uint8_t, 256> digits{};
  digits.fill(no_digit);
  for (std::size_t i = 0; i < alphabet.size(); ++i) {
    digits.at(static_cast<unsigned char>(alphabet[i])) = static_cast<std::uint8_t>(i);
  }
  return digits;
}

EncodedVector quantized(std::span<const float> vector) {
  constexpr float largest = 127;
  float most = 0;
  for (const float element : vector) {
    if (!std::isfinite(element)) {
      throw Error(ErrorCode::invalid_input, "the vector has NaN or infinities, which int8 cannot hold");
    }
    most = std::max(most, std::fabs(element));
  }
  EncodedVector encoded{std::vector<std::byte>(vector.size()), most / largest};
  for (std::size_t i = 0; i < vector.size() && encoded.scale != 0; ++i) {
    // What is subnormal is divided by a scale that was rounded much.
    const double level = std::clamp(std::nearbyint(double{vector[i]} / double{encoded.scale}), -127.0, 127.0);
    encoded.bytes[i] = static_cast<std::byte>(static_cast<std::int8_t>(level));
  }
  return encoded;
}

EncodedVector signs(std::span<const float> vector) {
  EncodedVector encoded{std::vector<std::byte>(encoded_size(VectorEncoding::binary, vector.size())), 1};
  for (std::size_t i = 0; i < vector.size(); ++i) {
    if (vector[i] > 0) encoded.bytes[i / bits_a_byte] |= std::byte{0x80} >> (i % bits_a_byte);
  }
  return encoded;
}

}  // namespace

std::optional<VectorEncoding> vector_encoding_from(std::string_view name) noexcept {
  for (const auto& [known, encoding] : names) {
    if (known == name) return encoding;
  }
  return std::nullopt;
}

std::string_view name_of(VectorEncoding encoding) noexcept {
  return names.at(static_cast<std::size_t>(encoding)).first;
}

ElementType encoded_type(VectorEncoding encoding) noexcept {
  if (encoding == VectorEncoding::int8) return ElementType::int8;
  return encoding == VectorEncoding::binary ? ElementType::uint8 : ElementType::float32;
}

std::size_t encoded_size(VectorEncoding encoding, std::size_t dimension) noexcept {
  return encoding == VectorEncoding::binary ? (dimension + bits_a_byte - 1) / bits_a_byte : dimension;
}

EncodedVector encode(VectorEncoding encoding, std::span<const float> vector) {
  if (encoding == VectorEncoding::int8) return quantized(vector);
  if (encoding == VectorEncoding::binary) return signs(vector);
  const auto bytes = std::as_bytes(vector);
  return {{bytes.begin(), bytes.end()}, 1};
}

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
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < text.size() - padding; ++i) {
    const std::uint8_t digit = digits[static_cast<unsigned char>(text[i])];
    if (digit == no_digit) return std::nullopt;
    group = group << 6U | digit;
    if (i % 4 == 0) continue;
    bytes.push_back(static_cast<std::byte>(group >> (6 - 2 * (i % 4)) & 0xffU));
  }
  return bytes;
}

}  // namespace gpux::embedding
