#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/tensor.h"

namespace gpux::embedding {

/// How the numbers of a vector are kept. Each vector is encoded by itself, so it is the same beside any others.
enum class VectorEncoding : std::uint8_t {
  float32,  ///< "float": as they are
  int8,     ///< scale = max|x| / 127 in float32; round(x / scale), ties to even, -127 to 127; x is near element * scale
  binary,   ///< a bit each, 1 where x > 0, eight in a uint8, the first the highest; the last is filled up with zeros:
            ///< numpy.packbits(x > 0), "ubinary" of sentence-transformers
  base64,   ///< float32, little endian, and its bytes in base64 where they are written as text
};

/// "float", "int8", "binary", "base64"; empty where it is none of these.
[[nodiscard]] std::optional<VectorEncoding> vector_encoding_from(std::string_view name) noexcept;
[[nodiscard]] std::string_view name_of(VectorEncoding encoding) noexcept;

/// Elements' type: float32, int8 or uint8.
[[nodiscard]] ElementType encoded_type(VectorEncoding encoding) noexcept;

/// Elements that a vector of `dimension` has when it is encoded.
[[nodiscard]] std::size_t encoded_size(VectorEncoding encoding, std::size_t dimension) noexcept;

struct EncodedVector {
  std::vector<std::byte> bytes;  ///< encoded_size() elements of encoded_type(), little endian
  float scale = 1;               ///< scale of int8 elements
};

/// Encodes a vector. Error invalid_input if a vector with NaN or an infinity is encoded as int8.
[[nodiscard]] EncodedVector encode(VectorEncoding encoding, std::span<const float> vector);

}  // namespace gpux::embedding
