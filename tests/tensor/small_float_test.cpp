#include "tensor/small_float.h"

#include <array>
#include <charconv>
#include <cmath>
#include <sstream>

#include "tensor/json_reader.h"
#include "tensor/npz.h"
#include "tensors.h"

namespace gpux::test {
namespace {

constexpr std::array types{ElementType::float16,        ElementType::bfloat16,   ElementType::float8e4m3fn,
                           ElementType::float8e4m3fnuz, ElementType::float8e5m2, ElementType::float8e5m2fnuz,
                           ElementType::float4e2m1,     ElementType::float8e8m0};

std::uint32_t patterns_of(ElementType type) {
  return 1U << bits_of(type);
}

std::uint16_t read_bits(ElementType type, std::string_view text) {
  const Value value = read_json_value(text, tensor_type(type, {{}}), "x");
  const std::span<const std::byte> bytes = value.tensor()->bytes();
  const auto high = bytes.size() == 2 ? std::to_integer<unsigned>(bytes[1]) << 8 : 0U;
  return static_cast<std::uint16_t>(high | std::to_integer<unsigned>(bytes[0]));
}

TEST(SmallFloat, PatternsMeanWhatMlDtypesSays) {
  const std::string file = reference("small_float_values.npz");
  const std::vector<NamedTensor> expected = read_npz(bytes_of(file));
  ASSERT_EQ(expected.size(), 6U);
  for (const auto& [name, values] : expected) {
    const ElementType type = element_type_from(name).value();
    ASSERT_EQ(static_cast<std::uint32_t>(values.element_count()), patterns_of(type));
    for (std::uint32_t bits = 0; bits < patterns_of(type); ++bits) {
      const double value = values.as<double>()[bits];
      const double ours = small_float_value(type, static_cast<std::uint16_t>(bits));
      EXPECT_TRUE(std::isnan(value) ? std::isnan(ours) : ours == value && std::signbit(ours) == std::signbit(value))
          << name << " " << bits << ": " << ours << ", not " << value;
    }
  }
}

TEST(SmallFloat, DecimalsRoundAsExactFractionsDo) {
  std::istringstream lines(reference("roundings.tsv"));
  std::string name;
  std::string text;
  std::string expected;
  int count = 0;
  while (lines >> name >> text >> expected) {
    ++count;
    const ElementType type = element_type_from(name).value();
    if (expected == "refused") {
      EXPECT_NE(refusal_of([&] { read_bits(type, text); }).find("does not fit " + name), std::string::npos) << text;
    } else {
      EXPECT_EQ(read_bits(type, text), std::stoul(expected, nullptr, 16)) << name << " " << text;
    }
  }
  EXPECT_GT(count, 150);
}

TEST(SmallFloat, EveryPatternRoundsToItself) {
  for (const ElementType type : types) {
    for (std::uint32_t bits = 0; bits < patterns_of(type); ++bits) {
      const double value = small_float_value(type, static_cast<std::uint16_t>(bits));
      if (std::isfinite(value)) {
        EXPECT_EQ(round_to_small_float(type, value).bits, bits) << to_string(type);
      }
    }
  }
}

TEST(SmallFloat, ShortestDecimalsReadBackAndNoShorterOneDoes) {
  for (const ElementType type : types) {
    // Every pattern of 8 bits, a sample of those of 16.
    const std::uint32_t step = bits_of(type) == 16 ? 7 : 1;
    for (std::uint32_t bits = 0; bits < patterns_of(type); bits += step) {
      const auto pattern = static_cast<std::uint16_t>(bits);
      if (!std::isfinite(small_float_value(type, pattern))) continue;
      const double decimal = shortest_decimal(type, pattern);
      std::array<char, 64> text{};
      const char* end = std::to_chars(text.data(), text.data() + 64, decimal, std::chars_format::scientific).ptr;
      const std::string_view written(text.data(), static_cast<std::size_t>(end - text.data()));
      ASSERT_EQ(read_bits(type, written), bits) << to_string(type) << " " << written;

      const auto digits = static_cast<int>(
          std::count_if(text.data(), text.data() + written.find('e'), [](char c) { return c >= '0' && c <= '9'; }));
      ASSERT_LE(digits, 5) << to_string(type) << " " << written;
      if (digits == 1) continue;
      std::array<char, 64> shorter{};
      const double value = small_float_value(type, pattern);
      end = std::to_chars(shorter.data(), shorter.data() + 64, value, std::chars_format::scientific, digits - 2).ptr;
      const std::string_view shorter_text(shorter.data(), static_cast<std::size_t>(end - shorter.data()));
      double shorter_value = 0;
      std::from_chars(shorter.data(), end, shorter_value);
      const SmallFloatRounding rounding = round_to_small_float(type, shorter_value);
      EXPECT_TRUE(rounding.tie || !rounding.fits || rounding.bits != bits)
          << to_string(type) << " " << written << " " << shorter_text;
    }
  }
}

TEST(SmallFloat, SpecialValuesWhereTheTypeHasThem) {
  EXPECT_EQ(read_bits(ElementType::float16, "NaN"), 0x7e00);
  EXPECT_EQ(read_bits(ElementType::float16, "-Infinity"), 0xfc00);
  EXPECT_EQ(read_bits(ElementType::bfloat16, "\"Infinity\""), 0x7f80);
  EXPECT_EQ(read_bits(ElementType::float8e5m2, "Infinity"), 0x7c);
  EXPECT_EQ(read_bits(ElementType::float8e4m3fn, "NaN"), 0x7f);
  EXPECT_EQ(read_bits(ElementType::float8e4m3fnuz, "NaN"), 0x80);
  for (const ElementType type : {ElementType::float8e4m3fn, ElementType::float8e5m2fnuz, ElementType::float4e2m1}) {
    EXPECT_NE(refusal_of([&] { read_bits(type, "Infinity"); }).find("has no such value"), std::string::npos);
  }
  EXPECT_NE(refusal_of([&] { read_bits(ElementType::float4e2m1, "NaN"); }).find("no such value"), std::string::npos);
}

}  // namespace
}  // namespace gpux::test
