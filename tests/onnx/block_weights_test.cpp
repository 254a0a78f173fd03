#include "onnx/block_weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::onnx {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatEq;
using testing::FloatNear;
using testing::IsEmpty;
using testing::Pointwise;
using testing::SizeIs;

constexpr std::int64_t block = 16;

std::vector<float> block_of(std::vector<float> elements) {
  elements.resize(block);
  return elements;
}

TEST(QuantizeToBlocks, KeepsTheLargestElementOfABlock) {
  const BlockFormat format{.bits = 4, .block_size = block};
  for (const float largest : {-7.0F, 7.0F}) {
    const auto matrix = block_of({largest, -largest / 2, 0.4F, -largest});
    const auto made = quantize_to_blocks(matrix, 1, block, format);
    ASSERT_TRUE(made);
    EXPECT_THAT(made->scales, ElementsAre(FloatEq(-largest / 8)));
    EXPECT_THAT(made->zero_points, IsEmpty());
    ASSERT_THAT(made->values, SizeIs(8));
    EXPECT_EQ(made->values[0], 0U | 12U << 4U);  // the first is in the low bits
    const auto elements = elements_of(*made, 1, block, format);
    EXPECT_FLOAT_EQ(elements[0], largest);
    EXPECT_FLOAT_EQ(elements[1], -largest / 2);
    EXPECT_FLOAT_EQ(elements[2], 0);
    EXPECT_FLOAT_EQ(elements[3], -largest * 7 / 8);  // of the other sign there is a value less
  }
}

TEST(QuantizeToBlocks, CoversTheRangeOfABlockWithZeroPoints) {
  const BlockFormat format{.bits = 4, .block_size = block, .has_zero_points = true};
  const auto matrix = block_of({-1, 14, 3, 2});
  const auto made = quantize_to_blocks(matrix, 1, block, format);
  ASSERT_TRUE(made);
  EXPECT_THAT(made->scales, ElementsAre(1));
  EXPECT_THAT(made->zero_points, ElementsAre(1));
  EXPECT_EQ(made->values[0], 0U | 15U << 4U);
  EXPECT_THAT(elements_of(*made, 1, block, format), Pointwise(FloatEq(), matrix));
}

TEST(QuantizeToBlocks, RepresentsZeroWhereAllElementsHaveOneSign) {
  const BlockFormat format{.bits = 8, .block_size = block, .has_zero_points = true};
  for (const float sign : {1.0F, -1.0F}) {
    std::vector<float> matrix(block, 255 * sign);
    matrix[1] = 200 * sign;
    const auto made = quantize_to_blocks(matrix, 1, block, format);
    ASSERT_TRUE(made);
    EXPECT_THAT(made->scales, ElementsAre(FloatEq(1)));
    EXPECT_THAT(made->zero_points, ElementsAre(sign > 0 ? 0 : 255));
    EXPECT_THAT(elements_of(*made, 1, block, format), Pointwise(FloatEq(), matrix));
  }
}

TEST(QuantizeToBlocks, FillsUpTheLastBlockOfARow) {
  for (const bool has_zero_points : {false, true}) {
    const BlockFormat format{.bits = 4, .block_size = block, .has_zero_points = has_zero_points};
    const std::int64_t columns = 2 * block + 3;
    std::vector<float> matrix;
    for (std::int64_t i = 0; i < 2 * columns; ++i) matrix.push_back(static_cast<float>(i % 15 - 8));
    const auto made = quantize_to_blocks(matrix, 2, columns, format);
    ASSERT_TRUE(made);
    EXPECT_THAT(made->values, SizeIs(2 * 3 * 8));
    EXPECT_THAT(made->scales, SizeIs(2 * 3));
    EXPECT_THAT(made->zero_points, SizeIs(has_zero_points ? 2 * 2 : 0));
    const unsigned zero_point = has_zero_points ? made->zero_points[1] & 15U : 8U;
    EXPECT_EQ(made->values[3 * 8 - 1], zero_point | zero_point << 4U);
    EXPECT_THAT(elements_of(*made, 2, columns, format), Pointwise(FloatNear(0.51F), matrix));
  }
}

TEST(QuantizeToBlocks, IsOffByHalfAStepAtMost) {
  for (const int bits : {4, 8}) {
    const BlockFormat format{.bits = bits, .block_size = 32, .has_zero_points = true};
    std::vector<float> matrix;
    for (int i = 0; i < 4 * 64; ++i) matrix.push_back(std::sin(static_cast<float>(i * i)) + 0.2F);
    const auto made = quantize_to_blocks(matrix, 4, 64, format);
    ASSERT_TRUE(made);
    const float step = *std::ranges::max_element(made->scales);
    EXPECT_THAT(elements_of(*made, 4, 64, format), Pointwise(FloatNear(step * 1.01F), matrix));
    EXPECT_LT(step, 2.5F / static_cast<float>(format.max_value()));
  }
}

// Of 11 bits, the last rounded; blocks beyond float16 keep theirs.
TEST(QuantizeToBlocks, HasScalesOfFloat16) {
  struct Case {
    float largest, scale;
  };

  for (const auto& [largest, scale] :
       {Case{8 * (1 + 0x1p-11F), -1}, Case{8 * (1 + 0x3p-11F), -(1 + 0x1p-9F)},
        Case{8 * (1 + 0x1.8p-11F), -(1 + 0x1p-10F)}, Case{-8 * (2 - 0x1p-12F), 2}, Case{8 * 65520.0F, -65520},
        Case{8 * 0x1.004p-15F, -0x1.008p-15F}, Case{-8 * 0x1.14p-20F, 0x1.2p-20F}, Case{8 * 0x1.1p-21F, -0x1.1p-21F}}) {
    const auto made = quantize_to_blocks(block_of({largest}), 1, block, {.bits = 4, .block_size = block});
    ASSERT_TRUE(made);
    EXPECT_THAT(made->scales, ElementsAre(scale));
  }
  const auto with_zero_points = quantize_to_blocks(block_of({15 * (1 + 0x1.8p-11F)}), 1, block, {4, block, true});
  ASSERT_TRUE(with_zero_points);
  EXPECT_THAT(with_zero_points->scales, ElementsAre(1 + 0x1p-10F));
}

TEST(QuantizeToBlocks, HasBlocksOfZeros) {
  for (const bool has_zero_points : {false, true}) {
    const BlockFormat format{.bits = 4, .block_size = block, .has_zero_points = has_zero_points};
    for (const float tiny : {0.0F, 1e-44F}) {
      const auto made = quantize_to_blocks(std::vector<float>(block, tiny), 1, block, format);
      ASSERT_TRUE(made);
      EXPECT_THAT(elements_of(*made, 1, block, format), Each(0));
    }
  }
}

TEST(QuantizeToBlocks, TakesFiniteElementsAlone) {
  const BlockFormat format{.bits = 4, .block_size = block};
  for (const float element : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EXPECT_FALSE(quantize_to_blocks(block_of({1, element}), 1, block, format));
  }
  // The range of a block may be larger than any float.
  constexpr float most = std::numeric_limits<float>::max();
  const BlockFormat with_zero_points{.bits = 8, .block_size = block, .has_zero_points = true};
  const auto matrix = block_of({most, -most});
  const auto made = quantize_to_blocks(matrix, 1, block, with_zero_points);
  ASSERT_TRUE(made);
  EXPECT_NEAR(elements_of(*made, 1, block, with_zero_points)[0] / most, 1, 0.01);
}

TEST(PackedNibbles, HasTheFirstValueInTheLowBits) {
  EXPECT_THAT(packed_nibbles(std::vector<std::uint8_t>{1, 2, 15}), ElementsAre(0x21, 0x0f));
}

}  // namespace
}  // namespace gpux::onnx
