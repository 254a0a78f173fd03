#include "decoder/block_linear.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "decoder/packed_numbers.h"

namespace gpux_cpu::decoder {
namespace {

struct StepCase {
  std::vector<float> numbers;
  bool is_found;
};

class CommonSteps : public testing::TestWithParam<StepCase> {};

TEST_P(CommonSteps, GiveTheNumbersBack) {
  const auto& [numbers, is_found] = GetParam();
  std::vector<std::int8_t> steps(numbers.size());
  const auto step = common_step(numbers, steps);
  ASSERT_EQ(step.has_value(), is_found);
  if (!step) return;
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(static_cast<float>(steps[i]) * *step, numbers[i]);
}

constexpr float infinity = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();

INSTANTIATE_TEST_SUITE_P(All, CommonSteps,
                         testing::Values(StepCase{{0.25F, 0.5F, 15.75F}, true}, StepCase{{0, 0}, true},
                                         StepCase{{-0.1F * 128, 0.1F * 127}, true}, StepCase{{7, 5, 3}, true},
                                         StepCase{{-7, 5, 0}, true}, StepCase{{1, 1.0F / 3}, true},
                                         StepCase{{1, 0.314159F}, false}, StepCase{{1, 0.001F}, false},
                                         StepCase{{0x1p-140F, 0x3p-140F}, true}, StepCase{{1, infinity}, false},
                                         StepCase{{none, 1}, false}, StepCase{{3e38F, 1.5e38F}, true},
                                         StepCase{{}, true}));

// As llama.cpp makes the scales of a Q4_K and a Q6_K: a float16 times a whole number.
TEST(CommonSteps, AreFoundForEveryScaleOfAKType) {
  std::mt19937 engine(1);
  for (int i = 0; i < 1000; ++i) {
    const float step = std::ldexp(static_cast<float>(1024 + engine() % 1024), -static_cast<int>(engine() % 24) - 10);
    std::array<float, 16> numbers{};
    for (float& number : numbers) number = step * static_cast<float>(static_cast<int>(engine() % 256) - 128);
    std::array<std::int8_t, 16> steps{};
    ASSERT_TRUE(common_step(numbers, steps)) << step;
  }
}

enum class Kind : std::uint8_t { any, halves, steps };

std::vector<float> made_numbers(Kind kind, std::size_t count, std::size_t together) {
  std::mt19937 engine(2);
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float size = std::ldexp(static_cast<float>(1025 + i / together % 7), -20);  // a float16
    const auto whole = static_cast<int>(engine() % 127) - 63;
    numbers[i] = kind == Kind::any      ? size * std::sin(static_cast<float>(i))
                 : kind == Kind::halves ? std::ldexp(static_cast<float>(whole), -20)
                                        : size * static_cast<float>(i % together == 0 ? 63 : whole);
  }
  return numbers;
}

struct PackedCase {
  Kind kind;
  std::size_t bytes;  ///< of a block of 32
};

class PackedNumbersOf : public testing::TestWithParam<PackedCase> {};

TEST_P(PackedNumbersOf, AreWhatWasGivenInLessMemory) {
  constexpr std::size_t blocks = 16, panels = 2, block_size = 32;
  const auto& [kind, bytes] = GetParam();
  const std::vector<float> by_column = made_numbers(kind, panels * panel_columns * blocks, 8);
  std::vector<float> numbers(by_column.size());
  for (std::size_t column = 0; column < panels * panel_columns; ++column) {
    for (std::size_t block = 0; block < blocks; ++block) {
      numbers[(column / panel_columns * blocks + block) * panel_columns + column % panel_columns] =
          by_column[column * blocks + block];
    }
  }
  const PackedNumbers packed(numbers, blocks, block_size);
  EXPECT_EQ(packed.bytes(), bytes * panels * panel_columns * blocks / 8);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_EQ(packed.at(i / panel_columns, i % panel_columns), numbers[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PackedNumbersOf,
                         testing::Values(PackedCase{Kind::any, 8 * 4}, PackedCase{Kind::halves, 8 * 2},
                                         PackedCase{Kind::steps, 8 + 4}));

struct LinearCase {
  std::size_t bits, block_size;
  std::uint8_t least, most;  ///< values
  bool has_minimums;
  Kind scales;
};

class BlockLinears : public testing::TestWithParam<LinearCase> {};

// However it is stored: what is read back has the bits of the formula, and products are those of each table.
TEST_P(BlockLinears, HaveTheElementsThatTheyAreGiven) {
  const auto& [bits, block_size, least, most, has_minimums, kind] = GetParam();
  constexpr std::size_t inner = 512, columns = 40;
  const std::size_t blocks = inner / block_size;
  std::mt19937 engine(3);
  std::vector<std::uint8_t> values(columns * inner), stored;
  for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(least + engine() % (most - least + 1U));
  for (std::size_t i = 0; i < values.size(); i += bits == 4 ? 2 : 1) {
    stored.push_back(bits == 4 ? static_cast<std::uint8_t>(values[i] | values[i + 1] << 4) : values[i]);
  }
  const std::vector<float> scales = made_numbers(kind, columns * blocks, 256 / block_size);
  const std::vector<float> minimums = made_numbers(Kind::steps, columns * blocks, 256 / block_size);
  std::vector<float> by_block(minimums.size());
  for (std::size_t i = 0; i < by_block.size(); ++i) {
    // What zero points leave of them.
    by_block[i % blocks * columns + i / blocks] = minimums[i] - 5 * scales[i];
  }
  // Zero points that are parts of the minimums, in blocks of a byte each or of 4 bits.
  std::vector<std::uint8_t> zeros(columns * blocks * bits / 8, static_cast<std::uint8_t>(bits == 4 ? 0x55 : 5));
  const QuantizedColumns part{.bits = bits,
                              .block_size = block_size,
                              .inner = inner,
                              .columns = columns,
                              .values = stored.data(),
                              .scales = scales.data(),
                              .zero_points = has_minimums ? zeros.data() : nullptr,
                              .minimums = has_minimums ? by_block.data() : nullptr};
  const BlockLinear linear(std::span(&part, 1), {});
  // The zero points are in the minimums, and both numbers of a block are steps of 8 bits.
  if (has_minimums && bits == 4) {
    EXPECT_EQ(8 * linear.bytes(), linear.panels() * panel_columns * inner * 475 / 100);
  }
  std::vector<float> input(inner), column(inner);
  for (std::size_t k = 0; k < inner; ++k) input[k] = std::sin(static_cast<float>(k));
  std::vector<std::int8_t> bytes(inner);
  std::vector<float> scale(blocks), out(linear.panels() * panel_columns);
  std::vector<std::int32_t> sums(blocks);
  const BlockKernels& kernels = block_kernels();
  kernels.quantize(input.data(), inner, block_size, bytes.data(), scale.data(), sums.data());
  linear.multiply(kernels, {bytes.data(), scale.data(), sums.data(), 1, blocks, block_size}, 0, linear.panels(),
                  out.data(), out.size());
  const int zero = has_minimums ? 5 : 1 << (bits - 1);
  for (std::size_t i = 0; i < columns; ++i) {
    linear.read_column(i, column.data());
    double exact = 0, size = 0;
    for (std::size_t k = 0; k < inner; ++k) {
      const std::size_t block = i * blocks + k / block_size;
      float expected = static_cast<float>(values[i * inner + k] - zero) * scales[block];
      if (has_minimums) expected -= by_block[k / block_size * columns + i];
      ASSERT_EQ(column[k], expected) << i << ", " << k;
      const double term = static_cast<double>(expected) * bytes[k] * scale[k / block_size];
      exact += term;
      size += std::abs(term);
    }
    EXPECT_NEAR(out[i], exact, 1e-5 * size) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BlockLinears,
    testing::Values(LinearCase{4, 32, 0, 15, false, Kind::halves}, LinearCase{4, 32, 0, 15, true, Kind::steps},
                    LinearCase{4, 16, 0, 15, false, Kind::any}, LinearCase{8, 32, 0, 255, false, Kind::halves},
                    LinearCase{8, 32, 0, 31, true, Kind::steps},       // Q5_K
                    LinearCase{8, 16, 96, 159, false, Kind::steps},    // Q6_K
                    LinearCase{8, 32, 112, 143, false, Kind::halves},  // Q5_0
                    LinearCase{8, 32, 120, 135, false, Kind::halves},  // 16 values
                    LinearCase{8, 32, 96, 160, false, Kind::halves}, LinearCase{8, 32, 95, 158, false, Kind::halves},
                    LinearCase{8, 32, 0, 63, true, Kind::steps}, LinearCase{8, 32, 0, 64, true, Kind::steps},
                    LinearCase{8, 32, 64, 191, false, Kind::any}, LinearCase{8, 32, 63, 191, false, Kind::any},
                    LinearCase{8, 32, 64, 192, false, Kind::any}, LinearCase{8, 32, 0, 128, true, Kind::any}));

// Of one block of 16 elements in each of 2 columns.
QuantizedColumns small_part(const std::vector<std::uint8_t>& values, const std::vector<float>& scales,
                            const std::vector<std::uint8_t>& zero_points, const std::vector<float>& minimums) {
  return {.bits = 8,
          .block_size = 16,
          .inner = 16,
          .columns = 2,
          .values = values.data(),
          .scales = scales.data(),
          .zero_points = zero_points.empty() ? nullptr : zero_points.data(),
          .minimums = minimums.empty() ? nullptr : minimums.data()};
}

std::vector<float> column_of(const QuantizedColumns& part, std::size_t column) {
  std::vector<float> elements(part.inner);
  BlockLinear(std::span(&part, 1), {}).read_column(column, elements.data());
  return elements;
}

TEST(BlockLinear, KeepsMinimumsThatZeroPointsCannotBeAPartOf) {
  std::vector<std::uint8_t> values(32);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(8 * i);
  const float none = std::numeric_limits<float>::quiet_NaN();
  for (const std::uint8_t point : {0, 3}) {
    for (const float minimum : {none, std::numeric_limits<float>::infinity(), 1e-9F, 0.25F}) {
      const std::vector<float> scales{0.1F, 0.3F}, minimums{minimum, 0.5F};
      const std::vector<std::uint8_t> points{point, point};
      const std::vector<float> elements = column_of(small_part(values, scales, points, minimums), 0);
      for (std::size_t k = 0; k < elements.size(); ++k) {
        const float expected = static_cast<float>(values[k] - point) * 0.1F - minimum;
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(elements[k]));
        } else {
          EXPECT_EQ(elements[k], expected) << k;
        }
      }
    }
  }
}

TEST(BlockLinear, TellsHowAPartIsStored) {
  const std::vector<float> scales{1, 1}, minimums{1, 1};
  const auto form = [&](std::size_t first, std::size_t step, bool has_minimums) {
    std::vector<std::uint8_t> values(32), zeros(2);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(first + step * i);
    return BlockLinear::form_of(small_part(values, scales, has_minimums ? zeros : std::vector<std::uint8_t>(),
                                           has_minimums ? minimums : std::vector<float>()));
  };
  EXPECT_EQ(form(100, 0, false), WeightForm::coded_nibbles);
  EXPECT_EQ(form(112, 1, false), WeightForm::six_bits);
  EXPECT_EQ(form(100, 2, false), WeightForm::small_bytes);
  EXPECT_EQ(form(0, 2, true), WeightForm::six_bits);
  EXPECT_EQ(form(4, 2, true), WeightForm::small_bytes);
  EXPECT_EQ(form(0, 8, false), WeightForm::bytes);
}

}  // namespace
}  // namespace gpux_cpu::decoder
