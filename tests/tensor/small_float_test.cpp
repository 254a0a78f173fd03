#include "tensor/small_float.h"

#include <array>
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
