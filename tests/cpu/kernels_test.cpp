#include "kernels/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/runnable_kernels.h"
#include "kernels/linear.h"

namespace gpux_cpu {
namespace {

class Random {
 public:
  std::vector<float> values(std::size_t count, float spread) {
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> values(count);
    for (float& value : values) value = normal(engine_);
    return values;
  }

 private:
  std::mt19937 engine_{20261122};
};

/// Rows and the memory of their conversion.
struct Converted {
  Converted(const Linear& linear, std::vector<float> given, std::size_t count) : floats(std::move(given)) {
    bfloat16s.resize(count * linear.row_stride());
    bytes.resize(count * linear.row_stride());
    scale.resize(count);
    zero.resize(count);
    rows = {count, floats.data(), linear.inner(), bfloat16s.data(), bytes.data(), scale.data(), zero.data()};
  }

  std::vector<float> floats, scale;
  std::vector<std::uint16_t> bfloat16s;
  std::vector<std::uint8_t> bytes;
  std::vector<std::int32_t> zero;
  Linear::Rows rows;
};

std::vector<float> product(const Kernels& kernels, const Linear& linear, const std::vector<float>& rows,
                           std::size_t count) {
  Converted converted(linear, rows, count);
  linear.convert(kernels, converted.rows, 0, count);
  std::vector<float> out(count * linear.columns());
  linear.multiply(kernels, converted.rows, 0, linear.panels(), out.data(), linear.columns());
  return out;
}

// Of 8 digits; what is cut off would be up to twice as much.
float half_step_of_bfloat16(float value) {
  return value == 0 ? 0 : std::ldexp(1.0F, std::ilogb(value) - 8);
}

class KernelsIn : public testing::TestWithParam<Precision> {};

// The exact product is what bytes and bfloat16s stand for, added up in double.
TEST_P(KernelsIn, MultipliesAsTheReferenceDoes) {
  Random random;

  struct Shape {
    std::size_t rows, inner, columns;
  };

  for (const Shape& shape :
       std::vector<Shape>{{1, 4, 1}, {3, 5, 33}, {14, 64, 32}, {15, 64, 96}, {29, 130, 40}, {61, 384, 64}}) {
    const std::vector<float> weights = random.values(shape.inner * shape.columns, 0.1F);
    const std::vector<float> bias = random.values(shape.columns, 1);
    const std::vector<float> rows = random.values(shape.rows * shape.inner, 1);
    const PlainWeights plain{weights.data(), shape.inner, shape.columns, false};
    const Linear linear(GetParam(), std::span(&plain, 1), bias);
    const std::vector<float> expected = product(reference(), linear, rows, shape.rows);
    // Of float32 to the order of adding up, of the others to what a row and a column are rounded to.
    const double allowed = GetParam() == Precision::fp32 ? 1e-5 : GetParam() == Precision::bf16 ? 0.02 : 0.06;
    for (std::size_t row = 0; row < shape.rows; ++row) {
      for (std::size_t column = 0; column < shape.columns; ++column) {
        double exact = bias[column], size = 1;
        for (std::size_t k = 0; k < shape.inner; ++k) {
          const double one = static_cast<double>(rows[row * shape.inner + k]) * weights[k * shape.columns + column];
          exact += one;
          size += one * one;
        }
        ASSERT_NEAR(expected[row * linear.columns() + column], exact, allowed * std::sqrt(size));
      }
      for (std::size_t column = shape.columns; column < linear.columns(); ++column) {
        ASSERT_EQ(expected[row * linear.columns() + column], 0);
      }
    }
    for (const Kernels* kernels : runnable()) {
      SCOPED_TRACE(std::string(kernels->name) + " " + std::to_string(shape.rows) + " rows");
      const std::vector<float> got = product(*kernels, linear, rows, shape.rows);
      // Bytes are added up exactly, whoever does it.
      const float near = GetParam() == Precision::int8 ? 2e-5F : 2e-4F;
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], near) << i;
      // A row is the same alone.
      for (std::size_t row = 0; row < shape.rows; ++row) {
        const auto first = rows.begin() + static_cast<std::ptrdiff_t>(row * shape.inner);
        const std::vector<float> alone =
            product(*kernels, linear, {first, first + static_cast<std::ptrdiff_t>(shape.inner)}, 1);
        ASSERT_TRUE(
            std::equal(alone.begin(), alone.end(), got.begin() + static_cast<std::ptrdiff_t>(row * linear.columns())));
      }
    }
  }
}

TEST_P(KernelsIn, PutsMatricesBesideEachOtherAndTurnsThem) {
  Random random;
  const std::vector<float> first = random.values(30, 1), second = random.values(240, 1);
  std::vector<float> turned(second.size());
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t column = 0; column < 40; ++column) turned[column * 6 + row] = second[row * 40 + column];
  }
  const std::vector<PlainWeights> plain{{first.data(), 6, 5, false}, {second.data(), 6, 40, false}};
  const std::vector<PlainWeights> other{{first.data(), 6, 5, false}, {turned.data(), 6, 40, true}};
  const std::vector<float> rows = random.values(18, 1), bias = random.values(45, 1);
  EXPECT_EQ(product(reference(), Linear(GetParam(), plain, bias), rows, 3),
            product(reference(), Linear(GetParam(), other, bias), rows, 3));
}

// Rows with a single 1 are exact in every precision: each gives a row of the weights as they are kept, which is within
// half a step of what they were. Cut off, a weight would be up to a whole step away, and always towards 0.
TEST_P(KernelsIn, KeepsWeightsWithinHalfAStep) {
  constexpr std::size_t inner = 64, columns = 96;
  Random random;
  const std::vector<float> weights = random.values(inner * columns, 0.1F);
  const PlainWeights plain{weights.data(), inner, columns, false};
  const Linear linear(GetParam(), std::span(&plain, 1), {});
  std::vector<float> ones(inner * inner);
  for (std::size_t i = 0; i < inner; ++i) ones[i * inner + i] = 1;
  const std::vector<float> kept = product(reference(), linear, ones, inner);
  double towards_zero = 0;
  for (std::size_t column = 0; column < columns; ++column) {
    float largest = 0;
    for (std::size_t row = 0; row < inner; ++row)
      largest = std::max(largest, std::abs(weights[row * columns + column]));
    for (std::size_t row = 0; row < inner; ++row) {
      const float exact = weights[row * columns + column], got = kept[row * linear.columns() + column];
      const float step = GetParam() == Precision::fp32   ? 0
                         : GetParam() == Precision::bf16 ? 2 * half_step_of_bfloat16(exact)
                                                         : largest / 127;
      ASSERT_LE(std::abs(got - exact), 0.5F * step + 2e-6F * largest) << row << " " << column;
      if (step > 0) towards_zero += (std::abs(exact) - std::abs(got)) / step / (inner * columns);
    }
  }
  EXPECT_LT(std::abs(towards_zero), 0.02);
}

INSTANTIATE_TEST_SUITE_P(Kernels, KernelsIn, testing::Values(Precision::fp32, Precision::bf16, Precision::int8));

TEST(Kernels, RefuseRowsOfBytesWhoseSumsOverflow) {
  const std::vector<float> weights(max_byte_inner + 1, 1);
  const PlainWeights longest{weights.data(), max_byte_inner, 1, false},
      longer{weights.data(), weights.size(), 1, false};
  const Linear linear(Precision::int8, std::span(&longest, 1), {});
  EXPECT_TRUE(linear.has_shape(Precision::int8, max_byte_inner, 1));
  EXPECT_THROW(Linear(Precision::int8, std::span(&longer, 1), {}), std::length_error);
}

TEST(Kernels, RoundTiesOfWeightsToEven) {
  const std::vector<float> weights{1 + 0x1p-8F, 1 + 3 * 0x1p-8F, -1 - 0x1p-8F, -1 - 3 * 0x1p-8F};
  const PlainWeights plain{weights.data(), 1, weights.size(), false};
  std::vector<float> kept = product(reference(), Linear(Precision::bf16, std::span(&plain, 1), {}), {1}, 1);
  kept.resize(weights.size());
  EXPECT_EQ(kept, (std::vector<float>{1, 1 + 0x1p-6F, -1, -1 - 0x1p-6F}));
}

// Bytes of the largest products, so many that words or saturated sums would show.
TEST(Kernels, AddBytesUpExactly) {
  constexpr std::size_t rows = 17, inner = 520, columns = 2 * panel_columns;
  std::mt19937 engine(3);
  std::vector<std::uint8_t> values(rows * inner);
  std::vector<std::int8_t> weights(inner * columns);
  for (std::uint8_t& value : values) value = engine() % 2 == 0 ? 255 : static_cast<std::uint8_t>(engine());
  for (std::int8_t& value : weights) value = engine() % 4 == 0 ? static_cast<std::int8_t>(engine()) : 127;
  std::fill_n(weights.begin(), inner * panel_columns / 2, std::int8_t{-128});
  const std::vector<float> ones(std::max(rows, columns), 1);
  const std::vector<std::int32_t> zero(rows, 3), sums(columns, 1000);
  for (const Kernels* kernels : runnable()) {
    SCOPED_TRACE(std::string(kernels->name));
    std::vector<float> out(rows * columns);
    kernels->byte_product({values.data(), inner, rows, inner, ones.data(), zero.data(), weights.data(), ones.data(),
                           sums.data(), nullptr, out.data(), columns, 0, 2});
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        std::int32_t sum = -3000;
        for (std::size_t k = 0; k < inner; ++k) {
          const std::size_t index = (column / panel_columns * inner + k / byte_depth * byte_depth) * panel_columns +
                                    column % panel_columns * byte_depth + k % byte_depth;
          sum += values[row * inner + k] * weights[index];
        }
        ASSERT_EQ(out[row * columns + column], static_cast<float>(sum)) << row << " " << column;
      }
    }
  }
}

TEST(Kernels, WorkOnRowsAsTheMathematicsDoes) {
  Random random;
  for (const Kernels* kernels : runnable()) {
    SCOPED_TRACE(std::string(kernels->name));
    for (const std::size_t hidden_size : {1, 15, 16, 33, 384}) {
      const std::vector<float> x = random.values(hidden_size, 3), residual = random.values(hidden_size, 1);
      const std::vector<float> gamma = random.values(hidden_size, 1), beta = random.values(hidden_size, 1);

      std::vector<float> gelu = x;
      kernels->gelu(gelu.data(), hidden_size);
      std::vector<float> tanh_gelu = x;
      kernels->tanh_gelu(tanh_gelu.data(), hidden_size);
      std::vector<float> softmax = x;
      kernels->softmax(softmax.data(), hidden_size, 0.5F);
      std::vector<float> norm(hidden_size);
      kernels->layer_norm(x.data(), residual.data(), gamma.data(), beta.data(), 1e-12F, hidden_size, norm.data());

      double sum = 0, mean = 0, variance = 0;
      for (std::size_t i = 0; i < hidden_size; ++i) {
        sum += std::exp(0.5 * x[i]);
        mean += (static_cast<double>(x[i]) + residual[i]) / static_cast<double>(hidden_size);
      }
      for (std::size_t i = 0; i < hidden_size; ++i) {
        variance += std::pow(static_cast<double>(x[i]) + residual[i] - mean, 2) / static_cast<double>(hidden_size);
      }
      for (std::size_t i = 0; i < hidden_size; ++i) {
        EXPECT_NEAR(gelu[i], x[i] * (1 + std::erf(x[i] / std::sqrt(2.0))) / 2, 2e-6);
        const double inside = std::sqrt(2 / std::numbers::pi) * (x[i] + 0.044715 * std::pow(x[i], 3));
        EXPECT_NEAR(tanh_gelu[i], x[i] * (1 + std::tanh(inside)) / 2, 2e-6);
        EXPECT_NEAR(softmax[i], std::exp(0.5 * x[i]) / sum, 1e-6);
        if (hidden_size > 1) {
          EXPECT_NEAR(
              norm[i],
              (static_cast<double>(x[i]) + residual[i] - mean) / std::sqrt(variance + 1e-12) * gamma[i] + beta[i],
              1e-4);
        }
      }
    }
  }
}

TEST(Kernels, ActivateAsTheMathematicsDoes) {
  std::vector<float> x = Random().values(100, 3);
  x.insert(x.end(), {0, -0.0F, 88, -88, 1e4F, -1e4F, 1e30F, -1e30F});
  for (const Kernels* kernels : runnable()) {
    SCOPED_TRACE(std::string(kernels->name));
    std::vector<float> relu = x, silu = x, quick_gelu = x;
    kernels->relu(relu.data(), x.size());
    kernels->silu(silu.data(), x.size());
    kernels->quick_gelu(quick_gelu.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = x[i], allowed = 2e-6 * std::max(1.0, std::abs(exact));
      EXPECT_EQ(relu[i], std::max(x[i], 0.0F));
      EXPECT_NEAR(silu[i], exact / (1 + std::exp(-exact)), allowed) << x[i];
      EXPECT_NEAR(quick_gelu[i], exact / (1 + std::exp(-1.702 * exact)), allowed) << x[i];
    }
  }
}

TEST(Kernels, CombineRowsAsTheMathematicsDoes) {
  Random random;
  for (const Kernels* kernels : runnable()) {
    SCOPED_TRACE(std::string(kernels->name));
    for (const std::size_t count : {1, 15, 16, 33, 384}) {
      const std::vector<float> x = random.values(count, 3), y = random.values(count, 1),
                               gamma = random.values(count, 1), beta = random.values(count, 1);
      std::vector<float> product = x, sum = x, larger = x, rms(count), rms_of_sum(count), layer_norm(count);
      kernels->multiply(product.data(), y.data(), count);
      kernels->scale_and_add(sum.data(), 0.5F, y.data(), count);
      kernels->maximum(larger.data(), y.data(), count);
      kernels->rms_norm(x.data(), nullptr, gamma.data(), nullptr, 1e-6F, count, rms.data());
      kernels->rms_norm(x.data(), y.data(), gamma.data(), beta.data(), 1e-6F, count, rms_of_sum.data());
      kernels->layer_norm(x.data(), nullptr, gamma.data(), nullptr, 0.1F, count, layer_norm.data());
      double squares = 0, squares_of_sum = 0, mean = 0, variance = 0;
      for (std::size_t i = 0; i < count; ++i) {
        squares += std::pow(static_cast<double>(x[i]), 2) / static_cast<double>(count);
        squares_of_sum += std::pow(static_cast<double>(x[i]) + y[i], 2) / static_cast<double>(count);
        mean += static_cast<double>(x[i]) / static_cast<double>(count);
      }
      for (std::size_t i = 0; i < count; ++i) variance += std::pow(x[i] - mean, 2) / static_cast<double>(count);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(product[i], x[i] * y[i]);
        EXPECT_NEAR(sum[i], 0.5 * x[i] + y[i], 1e-6);
        EXPECT_EQ(larger[i], std::max(x[i], y[i]));
        EXPECT_NEAR(rms[i], x[i] / std::sqrt(squares + 1e-6) * gamma[i], 1e-4);
        EXPECT_NEAR(rms_of_sum[i],
                    (static_cast<double>(x[i]) + y[i]) / std::sqrt(squares_of_sum + 1e-6) * gamma[i] + beta[i], 1e-4);
        EXPECT_NEAR(layer_norm[i], (x[i] - mean) / std::sqrt(variance + static_cast<double>(0.1F)) * gamma[i], 1e-4);
      }
    }
  }
}

TEST(Kernels, RotatePairs) {
  Random random;
  for (const Kernels* kernels : runnable()) {
    for (const std::size_t pairs : {1, 8, 13, 32}) {
      const std::vector<float> x = random.values(2 * pairs + 3, 1), cosines = random.values(pairs, 1),
                               sines = random.values(pairs, 1);
      for (const bool interleaved : {false, true}) {
        SCOPED_TRACE(std::string(kernels->name) + " " + std::to_string(pairs));
        std::vector<float> rotated = x;
        kernels->rotate(rotated.data(), cosines.data(), sines.data(), pairs, interleaved);
        for (std::size_t i = 0; i < pairs; ++i) {
          const std::size_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + pairs;
          EXPECT_NEAR(rotated[a], x[a] * cosines[i] - x[b] * sines[i], 1e-5);
          EXPECT_NEAR(rotated[b], x[b] * cosines[i] + x[a] * sines[i], 1e-5);
        }
        // What is not rotated stays.
        EXPECT_TRUE(std::equal(rotated.end() - 3, rotated.end(), x.end() - 3));
      }
    }
  }
}

// Parts of a row have the powers and the sum of the whole row, even if one of them is masked.
TEST(Kernels, MakeASoftmaxOfParts) {
  constexpr std::size_t part = 32, parts = 4;
  constexpr float scale = 0.25F;
  std::vector<float> scores = Random().values(part * parts, 8);
  std::fill_n(scores.begin(), part, -std::numeric_limits<float>::infinity());
  for (const Kernels* kernels : runnable()) {
    SCOPED_TRACE(std::string(kernels->name));
    std::vector<float> powers = scores, whole = scores;
    float largest = -std::numeric_limits<float>::infinity(), sum = 0;
    for (std::size_t i = 0; i < parts; ++i) {
      const float factor = kernels->softmax_part(powers.data() + i * part, part, scale, largest, sum);
      for (std::size_t k = 0; k < i * part; ++k) powers[k] *= factor;
    }
    kernels->softmax(whole.data(), whole.size(), scale);
    EXPECT_EQ(largest, *std::ranges::max_element(scores));
    for (std::size_t i = 0; i < scores.size(); ++i) EXPECT_NEAR(powers[i] / sum, whole[i], 1e-6);
  }
}

TEST(Kernels, AddRelativeProducts) {
  constexpr std::size_t count = 37, buckets = 5, stride = 40;
  Random random;
  const std::vector<float> x = random.values(count, 1), of_query = random.values(buckets, 1),
                           of_keys = random.values(buckets * stride, 1);
  std::vector<std::uint32_t> bucket(count);
  for (std::size_t k = 0; k < count; ++k) bucket[k] = static_cast<std::uint32_t>(32 + k * 7 % buckets);
  for (const Kernels* kernels : runnable()) {
    SCOPED_TRACE(std::string(kernels->name));
    std::vector<float> both = x, none = x;
    kernels->add_relative(both.data(), bucket.data(), 32, of_query.data(), of_keys.data(), stride, count);
    kernels->add_relative(none.data(), bucket.data(), 32, nullptr, nullptr, stride, count);
    EXPECT_EQ(none, x);
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t index = bucket[k] - 32;
      EXPECT_NEAR(both[k], x[k] + of_query[index] + of_keys[index * stride + k], 1e-6);
    }
  }
}

TEST(Kernels, LeaveOrDropWhatIsFarFromZero) {
  const std::vector<float> x{-1e30F, -100, -7, -5.5F, -5.2F, -5, -1e-20F, 0, 1e-20F, 5, 5.2F, 5.5F, 7, 100, 1e30F, 3};
  for (const Kernels* kernels : runnable()) {
    SCOPED_TRACE(std::string(kernels->name));
    std::vector<float> gelu = x;
    kernels->gelu(gelu.data(), gelu.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double positive = x[i] > 1 ? x[i] : 1;
      EXPECT_NEAR(gelu[i], x[i] * (1 + std::erf(x[i] / std::sqrt(2.0))) / 2, 2e-6 * positive) << x[i];
    }
  }
}

TEST(Kernels, RoundRowsToTheNearest) {
  Random random;
  const std::vector<float> values = random.values(1000, 2);
  for (const Kernels* kernels : runnable()) {
    SCOPED_TRACE(std::string(kernels->name));
    std::vector<std::uint16_t> bfloat16s(values.size());
    kernels->to_bfloat16(values.data(), values.size(), bfloat16s.data());
    std::vector<std::uint8_t> bytes(values.size());
    float scale = 0;
    std::int32_t zero = 0;
    kernels->to_bytes(values.data(), values.size(), bytes.data(), scale, zero);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float rounded = __builtin_bit_cast(float, static_cast<std::uint32_t>(bfloat16s[i]) << 16);
      EXPECT_LE(std::abs(rounded - values[i]), half_step_of_bfloat16(values[i])) << values[i];
      EXPECT_NEAR(scale * static_cast<float>(bytes[i] - zero), values[i], scale * 0.51F);
    }
    const std::vector<float> zeros(64);
    kernels->to_bytes(zeros.data(), zeros.size(), bytes.data(), scale, zero);
    EXPECT_EQ(scale, 1);
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.begin() + 64, [&](std::uint8_t byte) { return byte == zero; }));
  }
}

TEST(Kernels, AreChosenOnceAndByName) {
  EXPECT_TRUE(kernels().can_run());
  EXPECT_EQ(runnable().front(), &kernels());
}

}  // namespace
}  // namespace gpux_cpu
