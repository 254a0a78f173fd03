// Rows of keys or values as int8: codes, then an exponent of each block, then a fraction of each. An element is
// code * 2^exponent * (1 + fraction / 128). Plain loops, which each instruction set compiles for itself.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace gpux_cpu::decoder {
namespace {

constexpr int exponent_bias = 127, fraction_bits = 7, float_fraction_bits = 23, largest_exponent = 100;
constexpr std::int8_t largest_code = 127;

inline float scale_of(std::int8_t exponent, std::int8_t fraction) noexcept {
  const auto biased = static_cast<std::uint32_t>(exponent_bias + exponent);
  return std::bit_cast<float>(biased << float_fraction_bits | static_cast<std::uint32_t>(fraction & 127)
                                                                  << (float_fraction_bits - fraction_bits));
}

inline void code_block(const float* values, std::size_t count, std::int8_t* codes, std::int8_t& exponent,
                       std::int8_t& fraction) noexcept {
  float peak = 0, nothing = 0;  // what is no number makes `nothing` none
  for (std::size_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(values[i]);
    peak = magnitude > peak ? magnitude : peak;
    nothing += values[i] * 0.0F;
  }
  if (nothing != 0) {
    // It stays none: infinity.
    for (std::size_t i = 0; i < count; ++i) codes[i] = largest_code;
    exponent = fraction = std::numeric_limits<std::int8_t>::max();
    return;
  }
  const float unit = std::fmin(std::fmax(peak / largest_code, std::ldexp(1.0F, -largest_exponent)),
                               std::ldexp(1.0F, largest_exponent));
  // Of the scale's digits the first eight are kept: the largest element's code is 127.
  const auto bits = std::bit_cast<std::uint32_t>(unit);
  exponent = static_cast<std::int8_t>(static_cast<int>(bits >> float_fraction_bits) - exponent_bias);
  fraction = static_cast<std::int8_t>(bits >> (float_fraction_bits - fraction_bits) & 127U);
  const float inverse = 1 / scale_of(exponent, fraction);
  constexpr float to_integers = 12582912;  // 1.5 * 2^23: a sum with it is an integer, to the nearest even one
  for (std::size_t i = 0; i < count; ++i) {
    float code = (values[i] * inverse + to_integers) - to_integers;
    code = code > largest_code ? largest_code : code;
    code = code < -largest_code ? -largest_code : code;
    codes[i] = static_cast<std::int8_t>(static_cast<std::int32_t>(code));
  }
}

void to_codes(const float* values, std::size_t head_size, std::size_t block_size, std::int8_t* row) noexcept {
  const std::size_t blocks = head_size / block_size;
  for (std::size_t block = 0; block < blocks; ++block) {
    code_block(values + block * block_size, block_size, row + block * block_size, row[head_size + block],
               row[head_size + blocks + block]);
  }
}

template <std::size_t block_size>
void read_codes(const std::int8_t* rows, std::size_t count, std::size_t head_size, std::size_t stride,
                float* out) noexcept {
  const std::size_t blocks = head_size / block_size, row_size = head_size + 2 * blocks;
  for (std::size_t row = 0; row < count; ++row, rows += row_size, out += stride) {
    for (std::size_t block = 0; block < blocks; ++block) {
      const float scale = scale_of(rows[head_size + block], rows[head_size + blocks + block]);
      const std::int8_t* const codes = rows + block * block_size;
      float* const to = out + block * block_size;
      for (std::size_t i = 0; i < block_size; ++i) to[i] = static_cast<float>(codes[i]) * scale;
    }
  }
}

void from_codes(const std::int8_t* rows, std::size_t count, std::size_t head_size, std::size_t block_size,
                std::size_t stride, float* out) noexcept {
  if (block_size == 32) {
    read_codes<32>(rows, count, head_size, stride, out);
  } else {
    read_codes<16>(rows, count, head_size, stride, out);
  }
}

}  // namespace
}  // namespace gpux_cpu::decoder
