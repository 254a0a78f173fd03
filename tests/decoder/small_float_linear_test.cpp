#include "decoder/small_float_linear.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "block_kernels/half.h"
#include "kernels/kernels.h"

namespace gpux_cpu::decoder {
namespace {

constexpr std::size_t inner = 37, columns = 40;

std::vector<float> made_weights(std::uint32_t kept) {
  std::vector<float> values(inner * columns);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float value = std::sin(static_cast<float>(i) + 0.5F);
    values[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(std::abs(value) < 0.001F ? 0 : value) & kept);
  }
  return values;
}

constexpr std::uint32_t of_bfloat16 = 0xFFFF0000, of_float16 = 0xFFFFE000;

std::optional<SmallFloat> type_of(const std::vector<float>& values) {
  const PlainWeights part{values.data(), values.size(), 1, false};
  return small_float_of(std::span(&part, 1));
}

TEST(SmallFloats, AreFoundWhereNoBitIsLost) {
  EXPECT_EQ(type_of(made_weights(of_bfloat16)), SmallFloat::bfloat16);
  EXPECT_EQ(type_of(made_weights(of_float16)), SmallFloat::float16);
  EXPECT_EQ(type_of(made_weights(0xFFFFFFFF)), std::nullopt);
  EXPECT_EQ(type_of({1, 0x1p-24F, 1 + 0x1p-10F}), SmallFloat::float16);  // below the normal numbers of float16
  EXPECT_EQ(type_of({1, 0x1p-25F, 1 + 0x1p-10F}), std::nullopt);
  EXPECT_EQ(type_of({65504, 1 + 0x1p-10F}), SmallFloat::float16);
  EXPECT_EQ(type_of({65520, 1 + 0x1p-10F}), std::nullopt);
  EXPECT_EQ(type_of({1e30F, std::numeric_limits<float>::infinity(), -0.0F}), std::nullopt);
  EXPECT_EQ(type_of({0x1p100F, std::numeric_limits<float>::infinity(), -0.0F}), SmallFloat::bfloat16);
  EXPECT_EQ(type_of({-0.0F}), SmallFloat::bfloat16);
}

// The patterns of 16 bits of these floats.
std::vector<std::uint16_t> narrowed(const std::vector<float>& values, SmallFloat type) {
  std::vector<std::uint16_t> bits;
  for (const float value : values) {
    bits.push_back(type == SmallFloat::float16
                       ? half_of(value)
                       : static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U));
  }
  return bits;
}

// The bits of float32, however the weights are given.
TEST(SmallFloats, MultiplyAsFloat32) {
  const BlockKernels& block = block_kernels();
  std::vector<float> bias(2 * columns), rows(20 * inner);
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = std::cos(static_cast<float>(i));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = std::cos(static_cast<float>(i * i));
  for (const std::uint32_t kept : {of_bfloat16, of_float16}) {
    const std::vector<float> values = made_weights(kept);
    const std::vector<PlainWeights> parts{{values.data(), inner, columns, false},
                                          {values.data(), inner, columns, true}};
    for (const bool has_bias : {true, false}) {
      const std::span<const float> given = has_bias ? std::span<const float>(bias) : std::span<const float>();
      const Linear plain(Precision::fp32, parts, given);
      const SmallFloatLinear small(small_float_of(parts).value(), parts, given);
      const std::vector<std::uint16_t> bits = narrowed(values, small_float_of(parts).value());
      const std::vector<SmallWeights> small_parts{{bits.data(), inner, columns, false},
                                                  {bits.data(), inner, columns, true}};
      const SmallFloatLinear of_bits(small_float_of(parts).value(), small_parts, given);
      EXPECT_EQ(small.columns(), 2 * columns);
      EXPECT_LT(small.bytes(), plain.bytes() * 6 / 10);
      for (const std::size_t count : {1, 5, 20}) {
        std::vector<float> expected(count * plain.columns()), got(expected.size());
        const Linear::Rows all{.count = count, .floats = rows.data(), .float_stride = inner};
        plain.multiply_part(kernels(), all, 0, plain.panels(), expected.data(), plain.columns());
        small.multiply(block, all, 0, plain.panels(), got.data(), plain.columns());
        for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], expected[i]) << i;
        of_bits.multiply(block, all, 0, plain.panels(), got.data(), plain.columns());
        for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], expected[i]) << i;
      }
      std::vector<float> expected(inner), got(inner);
      for (std::size_t column = 0; column < 2 * columns; ++column) {
        plain.read_column(column, expected.data());
        small.read_column(column, got.data());
        ASSERT_EQ(got, expected);
      }
    }
  }
}

}  // namespace
}  // namespace gpux_cpu::decoder
