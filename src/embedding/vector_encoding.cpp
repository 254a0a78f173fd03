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

constexpr std::size_t bits_per_byte = 8;

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
    if (vector[i] > 0) encoded.bytes[i / bits_per_byte] |= std::byte{0x80} >> (i % bits_per_byte);
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
  return encoding == VectorEncoding::binary ? (dimension + bits_per_byte - 1) / bits_per_byte : dimension;
}

EncodedVector encode(VectorEncoding encoding, std::span<const float> vector) {
  if (encoding == VectorEncoding::int8) return quantized(vector);
  if (encoding == VectorEncoding::binary) return signs(vector);
  const auto bytes = std::as_bytes(vector);
  return {{bytes.begin(), bytes.end()}, 1};
}

}  // namespace gpux::embedding
