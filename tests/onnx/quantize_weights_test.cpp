#include "onnx/quantize_weights.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::onnx {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(QuantizeColumns, GivesEachColumnItsOwnScale) {
  const std::vector<float> matrix{127,    0.5F, 0,  //
                                  -63.5F, -1,   0};
  const auto made = quantize_columns(matrix, 2, 3, false, false);
  ASSERT_TRUE(made);
  EXPECT_THAT(made->scales, ElementsAre(FloatEq(1), FloatEq(1.0F / 127), 1));  // of zeros 1
  EXPECT_THAT(made->values, ElementsAre(127, 64, 0, -64, -127, 0));            // halves to even
}

TEST(QuantizeColumns, TurnsWhatIsTransposed) {
  const std::vector<float> rows{1, 2, 3, 4, 5, 6};    // [2, 3]
  const std::vector<float> turned{1, 4, 2, 5, 3, 6};  // [3, 2]
  const auto straight = quantize_columns(rows, 2, 3, false, false);
  const auto transposed = quantize_columns(turned, 2, 3, true, false);
  ASSERT_TRUE(straight && transposed);
  EXPECT_EQ(straight->values, transposed->values);
  EXPECT_EQ(straight->scales, transposed->scales);
}

TEST(QuantizeColumns, OfSevenBitsAddsUpWithin16) {
  const std::vector<float> matrix{2, -2, 1, 0};
  const auto made = quantize_columns(matrix, 4, 1, false, true);
  ASSERT_TRUE(made);
  EXPECT_THAT(made->values, ElementsAre(64, -64, 32, 0));
  EXPECT_LE(2 * 255 * largest_weight(true), std::numeric_limits<std::int16_t>::max());
  EXPECT_GT(2 * 255 * largest_weight(false), std::numeric_limits<std::int16_t>::max());
}

TEST(QuantizeColumns, TakesWhatHasNoReciprocalForZero) {
  const std::vector<float> matrix{std::numeric_limits<float>::denorm_min(), -std::numeric_limits<float>::min()};
  const auto made = quantize_columns(matrix, 2, 1, false, false);
  ASSERT_TRUE(made);
  EXPECT_THAT(made->values, ElementsAre(0, 0));
  EXPECT_THAT(made->scales, ElementsAre(1));
}

TEST(QuantizeColumns, KeepsTheLargestFloats) {
  const float most = std::numeric_limits<float>::max();
  const std::vector<float> matrix{most, -most};
  const auto made = quantize_columns(matrix, 2, 1, false, false);
  ASSERT_TRUE(made);
  EXPECT_THAT(made->values, ElementsAre(127, -127));
}

TEST(Quantize, RefusesWhatIsNotFinite) {
  for (const float bad : {nan, infinity, -infinity}) {
    const std::vector<float> matrix{1, bad, 2, 3};
    EXPECT_FALSE(quantize_columns(matrix, 2, 2, false, false)) << bad;
    EXPECT_FALSE(quantize_rows(matrix, 2, 2)) << bad;
  }
}

TEST(QuantizeRows, GivesEachRowItsOwnScale) {
  const std::vector<float> table{254, -127, 0, 0, -0.25F, 0.125F};
  const auto made = quantize_rows(table, 3, 2);
  ASSERT_TRUE(made);
  EXPECT_THAT(made->scales, ElementsAre(2, 1, FloatEq(0.25F / 127)));
  EXPECT_THAT(made->values, ElementsAre(127, -64, 0, 0, -127, 64));
}

}  // namespace
}  // namespace gpux::onnx
