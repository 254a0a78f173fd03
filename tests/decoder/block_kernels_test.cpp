#include "block_kernels/block_kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "block_kernels/packed_weights.h"
#include "runnable_block_kernels.h"

namespace gpux_cpu::decoder {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  std::vector<float> values(std::size_t count, float spread) {
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> values(count);
    for (float& value : values) value = normal(engine_);
    return values;
  }

  std::vector<std::uint8_t> bytes(std::size_t count) {
    std::vector<std::uint8_t> bytes(count);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(engine_());
    return bytes;
  }

 private:
  std::mt19937 engine_;
};

/// Rows with the memory of their quantization.
struct QuantizedRows {
  QuantizedRows(const BlockKernels& kernels, std::span<const float> values, std::size_t count, std::size_t block_size) {
    const std::size_t inner = values.size() / count, blocks = (inner + block_size - 1) / block_size;
    bytes.resize(count * blocks * block_size);
    scale.resize(count * blocks);
    sum.resize(count * blocks);
    for (std::size_t row = 0; row < count; ++row) {
      kernels.quantize(values.data() + row * inner, inner, block_size, bytes.data() + row * blocks * block_size,
                       scale.data() + row * blocks, sum.data() + row * blocks);
    }
    rows = {bytes.data(), scale.data(), sum.data(), count, blocks, block_size};
  }

  std::vector<std::int8_t> bytes;
  std::vector<float> scale;
  std::vector<std::int32_t> sum;
  BlockRows rows;
};

/// What a test asks for: what the numbers are, and how they are stored.
enum class Numbers : std::uint8_t { floats, halves, steps };

/// Numbers of blocks with their memory.
struct StoredNumbers {
  StoredNumbers() = default;

  StoredNumbers(Random& random, Numbers form, std::size_t panels, std::size_t blocks, float spread)
      : floats(random.values(panels * panel_columns * blocks, spread)) {
    if (form == Numbers::halves) {
      halves.resize(floats.size());
      plain_block_kernels().to_half(floats.data(), floats.size(), halves.data());
      plain_block_kernels().from_half(halves.data(), halves.size(), floats.data());
    }
    if (form != Numbers::steps) return;
    const std::size_t together = std::size_t{1} << step_shift;
    step_size = random.values(floats.size() / together, spread);
    for (const std::uint8_t byte : random.bytes(floats.size())) steps.push_back(static_cast<std::int8_t>(byte));
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const std::size_t of_step = i / (panel_columns * together) * panel_columns + i % panel_columns;
      floats[i] = static_cast<float>(steps[i]) * step_size[of_step];
    }
  }

  [[nodiscard]] BlockNumbers view() const {
    if (!halves.empty()) return {.halves = halves.data()};
    if (steps.empty()) return {.floats = floats.data()};
    return {.steps = steps.data(), .step_size = step_size.data(), .step_shift = step_shift};
  }

  static constexpr std::size_t step_shift = 2;
  std::vector<float> floats, step_size;
  std::vector<std::uint16_t> halves;
  std::vector<std::int8_t> steps;
};

struct WeightsCase {
  WeightForm form = WeightForm::nibbles;
  bool has_zero_points = false;
  Numbers scales = Numbers::floats;
  std::optional<Numbers> minimums = {};
  std::uint8_t zero_point = form == WeightForm::nibbles ? 8 : form == WeightForm::six_bits ? 32 : 128;
};

struct Weights {
  Weights(Random& random, const WeightsCase& asked, std::size_t blocks, std::size_t block_size, std::size_t panels)
      : asked(asked),
        panels(panels),
        packed(random.bytes(panels * panel_columns * blocks * block_size * stored_bits(asked.form) / 8)),
        scale(random, asked.scales, panels, blocks, 0.1F),
        bias(random.values(panels * panel_columns, 1)) {
    if (asked.minimums) minimums = StoredNumbers(random, *asked.minimums, panels, blocks, 0.5F);
    if (asked.form == WeightForm::small_bytes) {
      for (std::uint8_t& value : packed) value &= 127;
    }
    if (!asked.has_zero_points) return;
    zero_points = random.bytes(scale.floats.size());
    const bool is_narrow = stored_bits(asked.form) < 8 && asked.form != WeightForm::coded_nibbles;
    const unsigned mask = is_narrow ? (1U << stored_bits(asked.form)) - 1 : 255;
    for (std::uint8_t& point : zero_points) point &= mask;
  }

  std::vector<float> product(const BlockKernels& kernels, const BlockRows& rows) const {
    std::vector<float> out(rows.count * panels * panel_columns, -1);
    const BlockProduct all{.rows = rows,
                           .form = asked.form,
                           .weights = packed.data(),
                           .coded_values = coded_values.data(),
                           .weight_scale = scale.view(),
                           .minimums = minimums.floats.empty() ? BlockNumbers() : minimums.view(),
                           .zero_points = zero_points.empty() ? nullptr : zero_points.data(),
                           .zero_point = asked.zero_point,
                           .bias = bias.data(),
                           .out = out.data(),
                           .out_stride = panels * panel_columns,
                           .first_panel = 0,
                           .last_panel = panels};
    kernels.block_product(all);
    return out;
  }

  [[nodiscard]] int at(std::size_t k, std::size_t column) const {
    const std::uint8_t stored = stored_weight(asked.form, packed.data(), k, column);
    return asked.form == WeightForm::coded_nibbles ? coded_values[stored] : stored;
  }

  WeightsCase asked;
  std::size_t panels;
  std::vector<std::uint8_t> packed, zero_points;
  std::vector<std::uint8_t> coded_values{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 255};
  StoredNumbers scale, minimums;
  std::vector<float> bias;
};

struct ProductCase {
  std::size_t inner, block_size;
  WeightsCase weights;
};

constexpr Numbers floats = Numbers::floats, halves = Numbers::halves, steps = Numbers::steps;
constexpr WeightForm nibbles = WeightForm::nibbles, coded_nibbles = WeightForm::coded_nibbles,
                     six_bits = WeightForm::six_bits, small_bytes = WeightForm::small_bytes, bytes = WeightForm::bytes;

class BlockProducts : public testing::TestWithParam<ProductCase> {};

// The sums of a block are exact, and added to each other in one order: so all tables have the same bits.
TEST_P(BlockProducts, HaveTheSameBitsInEveryTableForAnyNumberOfRows) {
  const auto [inner, block_size, asked] = GetParam();
  Random random(1);
  constexpr std::size_t most = 35;
  const std::vector<float> values = random.values(most * inner, 2);
  const QuantizedRows all(plain_block_kernels(), values, most, block_size);
  const Weights weights(random, asked, all.rows.blocks, block_size, 3);
  const std::vector<float> expected = weights.product(plain_block_kernels(), all.rows);
  for (const BlockKernels* kernels : runnable_block_kernels()) {
    SCOPED_TRACE(std::string(kernels->name));
    for (std::size_t count = 1; count <= most; ++count) {
      const QuantizedRows rows(*kernels, std::span(values).first(count * inner), count, block_size);
      ASSERT_TRUE(std::equal(rows.bytes.begin(), rows.bytes.end(), all.bytes.begin()));
      ASSERT_TRUE(std::equal(rows.scale.begin(), rows.scale.end(), all.scale.begin()));
      ASSERT_TRUE(std::equal(rows.sum.begin(), rows.sum.end(), all.sum.begin()));
      const std::vector<float> got = weights.product(*kernels, rows.rows);
      ASSERT_TRUE(std::equal(got.begin(), got.end(), expected.begin())) << count << " rows";
    }
  }
}

TEST_P(BlockProducts, AreThoseOfTheNumbersThatBytesStandFor) {
  const auto [inner, block_size, asked] = GetParam();
  Random random(2);
  const std::vector<float> values = random.values(2 * inner, 2);
  const QuantizedRows all(plain_block_kernels(), values, 2, block_size);
  const Weights weights(random, asked, all.rows.blocks, block_size, 1);
  const std::vector<float> got = weights.product(plain_block_kernels(), all.rows);
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t column = 0; column < panel_columns; ++column) {
      double exact = weights.bias[column], size = 0;
      for (std::size_t k = 0; k < inner; ++k) {
        const std::size_t block = k / block_size * panel_columns + column;
        const int weight = weights.at(k, column);
        const int point = asked.has_zero_points ? weights.zero_points[block] : asked.zero_point;
        const double minimum = asked.minimums ? weights.minimums.floats[block] : 0;
        const double one =
            (static_cast<double>(weights.scale.floats[block]) * (weight - point) - minimum) * values[row * inner + k];
        exact += one;
        size += one * one;
      }
      ASSERT_NEAR(got[row * panel_columns + column], exact, 0.02 * std::sqrt(size)) << column;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BlockProducts,
    testing::Values(
        ProductCase{256, 32, {nibbles}}, ProductCase{384, 128, {nibbles}}, ProductCase{100, 32, {nibbles, true}},
        ProductCase{300, 128, {nibbles, true}}, ProductCase{256, 32, {bytes}}, ProductCase{384, 128, {bytes, true}},
        ProductCase{70, 32, {bytes}}, ProductCase{40, 16, {nibbles}}, ProductCase{512, 256, {nibbles, true}},
        ProductCase{256, 32, {nibbles, false, halves}}, ProductCase{256, 32, {nibbles, false, steps, steps, 0}},
        ProductCase{256, 16, {nibbles, false, floats, steps, 0}}, ProductCase{256, 32, {nibbles, true, halves, halves}},
        ProductCase{128, 32, {small_bytes, false, halves, floats, 0}},
        ProductCase{256, 16, {small_bytes, false, steps}}, ProductCase{256, 16, {bytes, false, steps, halves}},
        ProductCase{256, 16, {six_bits, false, steps}}, ProductCase{300, 32, {six_bits, false, halves}},
        ProductCase{256, 32, {six_bits, false, steps, steps, 0}}, ProductCase{2048, 64, {six_bits, true}},
        ProductCase{256, 32, {coded_nibbles, false, halves}}, ProductCase{80, 16, {coded_nibbles, true}},
        ProductCase{2048, 32, {nibbles, false, steps, steps, 0}},
        ProductCase{2048, 16, {coded_nibbles, true, halves, floats}}));

// Bytes of the largest products, so many that words or saturated sums would show.
TEST(BlockKernels, AddTheLargestBytesUpExactly) {
  constexpr int block_size = 256;
  for (const WeightForm form : {nibbles, coded_nibbles, six_bits, small_bytes, WeightForm::bytes}) {
    for (const auto [weight, step, zero_point] :
         {std::array{255, -127, 1}, {255, 127, 128}, {0, -127, 1}, {0, 127, 128}, {85, 127, 64}}) {
      SCOPED_TRACE(testing::PrintToString(std::array{static_cast<int>(form), weight, step, zero_point}));
      std::vector<std::int8_t> bytes(block_size, static_cast<std::int8_t>(step));
      std::vector<float> one(1, 1);
      std::vector<std::int32_t> sum(1, -step * block_size);
      Random random(3);
      Weights weights(random, {.form = form, .zero_point = static_cast<std::uint8_t>(zero_point)}, 1, block_size, 1);
      std::ranges::fill(weights.packed, static_cast<std::uint8_t>(form == small_bytes ? weight / 2 : weight));
      std::ranges::fill(weights.scale.floats, 1.0F);
      std::ranges::fill(weights.bias, 0.0F);
      const auto expected = static_cast<float>(step * block_size * (weights.at(0, 0) - zero_point));
      for (const BlockKernels* kernels : runnable_block_kernels()) {
        SCOPED_TRACE(std::string(kernels->name));
        const std::vector<float> got =
            weights.product(*kernels, {bytes.data(), one.data(), sum.data(), 1, 1, block_size});
        for (const float value : got) ASSERT_EQ(value, expected);
      }
    }
  }
}

TEST(BlockKernels, QuantizeToTheNearestStep) {
  Random random(4);
  std::vector<float> values = random.values(100, 3);
  values[40] = 50;  // a block of its own scale
  for (const BlockKernels* kernels : runnable_block_kernels()) {
    SCOPED_TRACE(std::string(kernels->name));
    const QuantizedRows rows(*kernels, values, 1, 32);
    ASSERT_EQ(rows.rows.blocks, 4);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(static_cast<float>(rows.bytes[i]) * rows.scale[i / 32], values[i], 0.501F * rows.scale[i / 32]) << i;
    }
    EXPECT_FLOAT_EQ(rows.scale[1], 50.0F / 127);
    EXPECT_LT(rows.scale[0], 10.0F / 127);
    for (std::size_t i = values.size(); i < rows.bytes.size(); ++i) EXPECT_EQ(rows.bytes[i], 0);
  }
}

// The products of bytes rest on it: -128 has no negative.
TEST(BlockKernels, QuantizeToNoLessThanMinus127) {
  for (const BlockKernels* kernels : runnable_block_kernels()) {
    SCOPED_TRACE(std::string(kernels->name));
    for (const float largest : {1e-45F, 1e-38F, 9.99e-31F, 1e-30F, 1.1e-30F, 1.0F, 3.0F, 1e38F, 3.4028234e38F}) {
      std::vector<float> values(64, -largest);
      values[5] = largest;
      const QuantizedRows rows(*kernels, values, 1, 32), expected(plain_block_kernels(), values, 1, 32);
      EXPECT_GE(*std::ranges::min_element(rows.bytes), -127) << largest;
      EXPECT_EQ(rows.bytes, expected.bytes) << largest;
    }
  }
}

TEST(BlockKernels, QuantizeWhatIsNoNumberToNone) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const BlockKernels* kernels : runnable_block_kernels()) {
    SCOPED_TRACE(std::string(kernels->name));
    for (const float value : {infinity, -infinity, nan}) {
      std::vector<float> values(64, 1);
      values[3] = value;
      const QuantizedRows rows(*kernels, values, 1, 32);
      EXPECT_TRUE(std::isnan(rows.scale[0]));
      EXPECT_FLOAT_EQ(rows.scale[1], 1.0F / 127);
      Random random(5);
      const Weights weights(random, {}, 2, 32, 1);
      for (const float product : weights.product(*kernels, rows.rows)) EXPECT_TRUE(std::isnan(product));
    }
    const QuantizedRows zeros(*kernels, std::vector<float>(32, 1e-35F), 1, 32);
    EXPECT_EQ(zeros.sum[0], 0);
    EXPECT_FALSE(std::isnan(zeros.scale[0]));
  }
}

TEST(BlockKernels, AccumulateFloatsInOrder) {
  Random random(6);
  constexpr std::size_t inner = 37, columns = 64, most = 17, stride = 70;
  const std::vector<float> rows = random.values(most * inner, 1), values = random.values(inner * stride, 1);
  const std::vector<float> factors = random.values(most, 1), before = random.values(most * columns, 1);
  for (const bool adds : {false, true}) {
    const auto product = [&](const BlockKernels& kernels, std::size_t first, std::size_t count) {
      std::vector<float> out(before.begin() + static_cast<std::ptrdiff_t>(first * columns), before.end());
      out.resize(count * columns);
      kernels.float_product({.rows = rows.data() + first * inner,
                             .row_stride = inner,
                             .row_count = count,
                             .inner = inner,
                             .values = values.data(),
                             .value_stride = stride,
                             .factors = adds ? factors.data() + first : nullptr,
                             .out = out.data(),
                             .out_stride = columns,
                             .columns = columns});
      return out;
    };
    const std::vector<float> expected = product(plain_block_kernels(), 0, most);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      double exact = adds ? static_cast<double>(before[i]) * factors[i / columns] : 0;
      for (std::size_t k = 0; k < inner; ++k) {
        exact += static_cast<double>(rows[i / columns * inner + k]) * values[k * stride + i % columns];
      }
      ASSERT_NEAR(expected[i], exact, 1e-5);
    }
    for (const BlockKernels* kernels : runnable_block_kernels()) {
      SCOPED_TRACE(std::string(kernels->name));
      for (std::size_t count = 1; count <= most; ++count) {
        const std::vector<float> got = product(*kernels, most - count, count);
        ASSERT_TRUE(std::equal(got.begin(), got.end(),
                               expected.begin() + static_cast<std::ptrdiff_t>((most - count) * columns)));
      }
    }
  }
}

// What is widened as it is multiplied has the bits of what was widened before.
TEST(BlockKernels, MultiplyFloat16AsFloats) {
  Random random(11);
  constexpr std::size_t inner = 19, columns = 64, most = 15;
  const std::vector<float> rows = random.values(most * inner, 1);
  std::vector<float> values = random.values(inner * columns, 1);
  values[3] = 3e-6F;  // below the normal numbers of float16
  std::vector<std::uint16_t> halves(values.size());
  plain_block_kernels().to_half(values.data(), values.size(), halves.data());
  plain_block_kernels().from_half(halves.data(), halves.size(), values.data());
  for (const BlockKernels* kernels : runnable_block_kernels()) {
    SCOPED_TRACE(std::string(kernels->name));
    for (std::size_t count = 1; count <= most; ++count) {
      std::vector<float> expected(count * columns), got(count * columns);
      FloatProduct product{.rows = rows.data(),
                           .row_stride = inner,
                           .row_count = count,
                           .inner = inner,
                           .values = values.data(),
                           .value_stride = columns,
                           .factors = nullptr,
                           .out = expected.data(),
                           .out_stride = columns,
                           .columns = columns};
      kernels->float_product(product);
      product.values = nullptr;
      product.half_values = halves.data();
      product.out = got.data();
      kernels->float_product(product);
      ASSERT_EQ(got, expected) << count << " rows";
    }
  }
}

TEST(BlockKernels, MultiplyBfloat16AsFloats) {
  Random random(12);
  constexpr std::size_t inner = 19, columns = 64, most = 15;
  const std::vector<float> rows = random.values(most * inner, 1);
  std::vector<float> values = random.values(inner * columns, 1);
  std::vector<std::uint16_t> upper(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    upper[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(values[i]) >> 16);
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(upper[i]) << 16);
  }
  for (const BlockKernels* kernels : runnable_block_kernels()) {
    SCOPED_TRACE(std::string(kernels->name));
    for (std::size_t count = 1; count <= most; ++count) {
      std::vector<float> expected(count * columns), got(count * columns);
      FloatProduct product{.rows = rows.data(),
                           .row_stride = inner,
                           .row_count = count,
                           .inner = inner,
                           .values = values.data(),
                           .value_stride = columns,
                           .factors = nullptr,
                           .out = expected.data(),
                           .out_stride = columns,
                           .columns = columns};
      kernels->float_product(product);
      product.values = nullptr;
      product.bfloat16_values = upper.data();
      product.out = got.data();
      kernels->float_product(product);
      ASSERT_EQ(got, expected) << count << " rows";
    }
  }
}

TEST(BlockKernels, PackKeysIntoPanels) {
  Random random(7);
  for (const std::size_t head_size : {8, 16, 20, 33, 64, 80}) {
    for (const std::size_t count : {1, 15, 32, 33, 64}) {
      const std::vector<float> keys = random.values(count * head_size, 1);
      std::vector<std::uint16_t> halves(keys.size());
      plain_block_kernels().to_half(keys.data(), keys.size(), halves.data());
      for (const BlockKernels* kernels : runnable_block_kernels()) {
        SCOPED_TRACE(std::string(kernels->name));
        std::vector<float> packed(panels_of(count) * panel_columns * head_size, -1);
        std::vector<std::uint16_t> packed_halves(packed.size(), 1);
        kernels->pack_keys(keys.data(), count, head_size, packed.data());
        kernels->pack_half_keys(halves.data(), count, head_size, packed_halves.data());
        for (std::size_t key = 0; key < panels_of(count) * panel_columns; ++key) {
          for (std::size_t element = 0; element < head_size; ++element) {
            const std::size_t index = (key / panel_columns * head_size + element) * panel_columns + key % panel_columns;
            ASSERT_EQ(packed[index], key < count ? keys[key * head_size + element] : 0) << key << " " << element;
            ASSERT_EQ(packed_halves[index], key < count ? halves[key * head_size + element] : 0)
                << key << " " << element;
          }
        }
      }
    }
  }
}

TEST(BlockKernels, TakeTheSoftmaxOfPartsAsOfTheWhole) {
  Random random(8);
  constexpr std::size_t keys = 150;
  for (const float soft_cap : {0.0F, 5.0F}) {
    const std::vector<float> scores = random.values(keys, 30);
    constexpr float scale = 0.3F;
    std::vector<double> exact(keys);
    double sum = 0;
    for (std::size_t i = 0; i < keys; ++i) {
      const double scaled = static_cast<double>(scores[i]) * scale;
      exact[i] = std::exp(soft_cap > 0 ? soft_cap * std::tanh(scaled / soft_cap) : scaled);
      sum += exact[i];
    }
    for (const BlockKernels* kernels : runnable_block_kernels()) {
      SCOPED_TRACE(std::string(kernels->name));
      std::vector<float> got;
      float largest = -std::numeric_limits<float>::infinity(), total = 0;
      for (std::size_t first = 0; first < keys; first += 64) {
        std::vector<float> part(64, 7);
        const std::size_t own = std::min<std::size_t>(64, keys - first);
        std::copy_n(scores.begin() + static_cast<std::ptrdiff_t>(first), own, part.begin());
        const float factor = kernels->softmax({part.data(), 0, own, 64, scale, soft_cap}, largest, total);
        for (float& value : got) value *= factor;
        got.insert(got.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(own));
        for (std::size_t i = own; i < 64; ++i) EXPECT_EQ(part[i], 0);
      }
      for (std::size_t i = 0; i < keys; ++i) ASSERT_NEAR(got[i] / total, exact[i] / sum, 2e-6) << i;
    }
  }
}

TEST(BlockKernels, TakeTheSameSoftmaxWithFewerKeysBehind) {
  Random random(9);
  const std::vector<float> scores = random.values(64, 3);
  for (const BlockKernels* kernels : runnable_block_kernels()) {
    SCOPED_TRACE(std::string(kernels->name));
    for (std::size_t last = 1; last <= 32; ++last) {
      std::vector<std::vector<float>> results;
      for (const std::size_t count : {32, 48, 64}) {
        std::vector<float> part = scores;
        float largest = -1, total = 0.5F;
        const float factor = kernels->softmax({part.data(), last / 2, last, count, 1, 0}, largest, total);
        part.resize(32);
        part.insert(part.end(), {largest, total, factor});
        results.push_back(part);
        EXPECT_TRUE(std::all_of(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(last / 2),
                                [](float value) { return value == 0; }));
      }
      ASSERT_EQ(results[0], results[1]);
      ASSERT_EQ(results[0], results[2]);
    }
  }
}

TEST(BlockKernels, TellOfScoresThatAreNoNumbers) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const BlockKernels* kernels : runnable_block_kernels()) {
    SCOPED_TRACE(std::string(kernels->name));
    for (const float soft_cap : {0.0F, 5.0F}) {
      std::vector<float> part(16, 1);
      part[5] = nan;
      float largest = -infinity, total = 0;
      kernels->softmax({part.data(), 0, 16, 16, 1, soft_cap}, largest, total);
      EXPECT_TRUE(std::isnan(total));
      // A masked one does not count.
      part.assign(16, 1);
      part[15] = nan;
      total = 0;
      largest = -infinity;
      kernels->softmax({part.data(), 0, 15, 16, 1, soft_cap}, largest, total);
      EXPECT_FLOAT_EQ(total, 15);
    }
  }
}

TEST(BlockKernels, RoundToHalfAndBack) {
  std::vector<float> values{0,
                            -0.0F,
                            1,
                            -1.5F,
                            65504,
                            65519,
                            65520,
                            1e30F,
                            0x1p-14F,
                            0x1p-24F,
                            0x1p-25F,
                            0x1.8p-25F,
                            1 + 0x1p-11F,
                            1 + 3 * 0x1p-11F,
                            3.14159F,
                            -1e-7F,
                            std::numeric_limits<float>::infinity()};
  std::vector<std::uint16_t> expected{0, 0x8000, 0x3C00, 0xBE00, 0x7BFF, 0x7BFF, 0x7C00, 0x7C00, 0x0400,
                                      1, 0,      1,      0x3C00, 0x3C02, 0x4248, 0x8002, 0x7C00};
  for (const BlockKernels* kernels : runnable_block_kernels()) {
    SCOPED_TRACE(std::string(kernels->name));
    std::vector<std::uint16_t> halves(values.size());
    kernels->to_half(values.data(), values.size(), halves.data());
    EXPECT_EQ(halves, expected);
    std::vector<std::uint16_t> all(65536), again(65536);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    std::vector<float> floats(all.size());
    kernels->from_half(all.data(), all.size(), floats.data());
    EXPECT_EQ(floats[0x3C00], 1);
    EXPECT_EQ(floats[0x0001], 0x1p-24F);
    kernels->to_half(floats.data(), floats.size(), again.data());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool is_nan = (i & 0x7C00) == 0x7C00 && (i & 0x3FF) != 0;
      if (!is_nan) {
        ASSERT_EQ(again[i], all[i]);
      }
    }
  }
}

// Each element is within a step of its block, the largest one within its last digits, and what is read and made again
// stays.
TEST(CodedRows, AreTheSameForEachInstructionSet) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const auto& [head_size, block_size] :
       {std::pair(16, 16), std::pair(48, 16), std::pair(64, 32), std::pair(160, 32)}) {
    const auto elements = static_cast<std::size_t>(head_size), block = static_cast<std::size_t>(block_size);
    const std::size_t row_size = elements + 2 * (elements / block);
    constexpr std::size_t rows = 200;
    std::vector<float> values(rows * elements);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = normal(random) * std::ldexp(1.0F, static_cast<int>(i / elements % 60) - 30);
    }
    std::fill_n(values.begin(), elements, 0.0F);
    const auto coded_by = [&](const BlockKernels& kernels, const std::vector<float>& from) {
      std::vector<std::int8_t> coded(rows * row_size);
      for (std::size_t row = 0; row < rows; ++row) {
        kernels.to_codes(from.data() + row * elements, elements, block, coded.data() + row * row_size);
      }
      return coded;
    };
    const std::vector<std::int8_t> expected = coded_by(plain_block_kernels(), values);
    for (const BlockKernels* kernels : runnable_block_kernels()) {
      SCOPED_TRACE(std::string(kernels->name));
      ASSERT_EQ(coded_by(*kernels, values), expected);
      const std::size_t stride = elements + 5;
      std::vector<float> spread(rows * stride, -1), again(values.size());
      kernels->from_codes(expected.data(), rows, elements, block, stride, spread.data());
      for (std::size_t row = 0; row < rows; ++row) {
        std::copy_n(spread.begin() + static_cast<std::ptrdiff_t>(row * stride), elements,
                    again.begin() + static_cast<std::ptrdiff_t>(row * elements));
        ASSERT_EQ(spread[row * stride + elements], -1);
      }
      for (std::size_t first = 0; first < values.size(); first += block) {
        float peak = 0;
        for (std::size_t i = first; i < first + block; ++i) peak = std::max(peak, std::fabs(values[i]));
        for (std::size_t i = first; i < first + block; ++i) {
          ASSERT_NEAR(again[i], values[i], peak / 127 * (std::fabs(values[i]) > 0.98F * peak ? 1 : 0.5F)) << i;
        }
      }
      ASSERT_EQ(coded_by(*kernels, again), expected);
    }
  }
}

TEST(CodedRows, HaveNoNumberForWhatIsNone) {
  for (const BlockKernels* kernels : runnable_block_kernels()) {
    SCOPED_TRACE(std::string(kernels->name));
    for (const float none : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> values(32, 1);
      values[7] = none;
      std::vector<std::int8_t> row(34);
      kernels->to_codes(values.data(), 32, 32, row.data());
      kernels->from_codes(row.data(), 1, 32, 32, 32, values.data());
      EXPECT_FALSE(std::isfinite(values[7]));
    }
    std::vector<float> large(32, std::numeric_limits<float>::max());
    std::vector<std::int8_t> row(34);
    kernels->to_codes(large.data(), 32, 32, row.data());
    kernels->from_codes(row.data(), 1, 32, 32, 32, large.data());
    EXPECT_GT(large[0], 1e30F);
  }
}

}  // namespace
}  // namespace gpux_cpu::decoder
