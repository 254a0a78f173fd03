#include "runtime/compare.h"

#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "tensor/json_reader.h"

namespace gpux::runtime {
namespace {

Value read(ElementType type, const char* json) {
  return read_json_value(json, {.element = type, .dimensions = std::nullopt, .inner = {}}, "x");
}

ToleranceOf exactly() {
  return [](ElementType) { return Tolerance{}; };
}

struct Pair {
  ElementType type;
  const char* expected;
  const char* got;
  std::uint64_t mismatches;
};

class Tolerances : public testing::TestWithParam<Pair> {};

TEST_P(Tolerances, ProviderToleranceDecidesWhichElementsMatch) {
  const Pair& pair = GetParam();
  const Difference difference = compare(read(pair.type, pair.expected), read(pair.type, pair.got), provider_tolerance);
  EXPECT_EQ(difference.mismatches, pair.mismatches) << to_string(pair.type) << ": " << difference.reason;
  EXPECT_EQ(difference.within, pair.mismatches == 0);
  EXPECT_EQ(difference.reason.empty(), difference.within);
}

INSTANTIATE_TEST_SUITE_P(
    AllTypes, Tolerances,
    testing::Values(
        Pair{ElementType::float32, "[1, 0, 1000]", "[1.001, 0.0001, 1001]", 0},
        Pair{ElementType::float32, "[1, 0, 1000]", "[1.0012, 0.00011, 1001.1]", 3},
        Pair{ElementType::float64, "[1, 0]", "[1.0000001, 1e-9]", 0},
        Pair{ElementType::float64, "[1, 0]", "[1.000001, 1.1e-9]", 2},
        Pair{ElementType::float16, "[1, 0]", "[1.0078125, 0.0009]", 0}, Pair{ElementType::float16, "[1]", "[1.01]", 1},
        Pair{ElementType::bfloat16, "[1, 0]", "[1.03125, 0.0099]", 0},
        Pair{ElementType::bfloat16, "[1]", "[1.0625]", 1},
        Pair{ElementType::float8e4m3fn, "[1, 448, 0]", "[1.125, 416, 0.001953125]", 0},
        Pair{ElementType::float8e4m3fn, "[1]", "[1.25]", 1}, Pair{ElementType::float8e4m3fnuz, "[1]", "[1.125]", 0},
        Pair{ElementType::float8e4m3fnuz, "[1]", "[1.25]", 1}, Pair{ElementType::float8e5m2, "[1]", "[1.25]", 0},
        Pair{ElementType::float8e5m2, "[1]", "[1.5]", 1}, Pair{ElementType::float8e5m2fnuz, "[1]", "[1.25]", 0},
        Pair{ElementType::float8e5m2fnuz, "[1]", "[1.5]", 1}, Pair{ElementType::float8e8m0, "[1, 4]", "[2, 8]", 0},
        Pair{ElementType::float8e8m0, "[1]", "[4]", 1}, Pair{ElementType::float4e2m1, "[0, 1, 4]", "[0.5, 1.5, 6]", 0},
        Pair{ElementType::float4e2m1, "[1]", "[3]", 1}, Pair{ElementType::int8, "[-128, 127]", "[-128, 127]", 0},
        Pair{ElementType::int8, "[-128, 127]", "[127, 126]", 2},
        Pair{ElementType::int16, "[-32768, 5]", "[-32768, 6]", 1}, Pair{ElementType::int32, "[7, 8]", "[8, 8]", 1},
        Pair{ElementType::int64, "[9007199254740993]", "[9007199254740992]", 1},
        Pair{ElementType::int64, "[9007199254740993]", "[9007199254740993]", 0},
        Pair{ElementType::uint8, "[255, 1]", "[254, 1]", 1}, Pair{ElementType::uint16, "[65535]", "[65535]", 0},
        Pair{ElementType::uint32, "[4294967295]", "[4294967294]", 1},
        Pair{ElementType::uint64, "[18446744073709551615]", "[18446744073709551614]", 1},
        Pair{ElementType::int4, "[-8, 7, 1]", "[-8, 7, 2]", 1}, Pair{ElementType::uint4, "[15, 0, 1]", "[15, 0, 1]", 0},
        Pair{ElementType::uint4, "[15, 0, 1]", "[14, 1, 1]", 2}, Pair{ElementType::int2, "[-2, 1, 0]", "[-2, 1, 1]", 1},
        Pair{ElementType::uint2, "[3, 2, 1, 0, 3]", "[3, 2, 1, 0, 2]", 1},
        Pair{ElementType::boolean, "[true, false]", "[true, true]", 1},
        Pair{ElementType::string, R"(["a", "b"])", R"(["a", "b"])", 0},
        Pair{ElementType::string, R"(["a", "b"])", R"(["a", "B"])", 1}));

TEST(Compare, FindsNotANumberAndInfinities) {
  struct Case {
    const char* expected;
    const char* got;
    bool within;
  };

  for (const ElementType type : {ElementType::float32, ElementType::float64, ElementType::float16,
                                 ElementType::bfloat16, ElementType::float8e5m2}) {
    for (const Case& entry :
         {Case{"[NaN]", "[NaN]", true}, Case{"[Infinity]", "[Infinity]", true},
          Case{"[-Infinity]", "[-Infinity]", true}, Case{"[Infinity]", "[-Infinity]", false},
          Case{"[NaN]", "[1]", false}, Case{"[1]", "[NaN]", false}, Case{"[1]", "[Infinity]", false},
          Case{"[Infinity]", "[1]", false}, Case{"[NaN]", "[Infinity]", false}}) {
      const Difference difference = compare(read(type, entry.expected), read(type, entry.got), provider_tolerance);
      EXPECT_EQ(difference.within, entry.within) << to_string(type) << " " << entry.expected << " " << entry.got;
      EXPECT_EQ(std::isinf(difference.max_absolute), !entry.within);
    }
  }
}

TEST(Compare, MeasuresHowFarApart) {
  const Difference difference =
      compare(read(ElementType::float32, "[0, 2, 4]"), read(ElementType::float32, "[1, 2, 3]"), exactly());
  EXPECT_DOUBLE_EQ(difference.max_absolute, 1);
  EXPECT_DOUBLE_EQ(difference.max_relative, 0.25);  // the expected 0 has no relative difference
  EXPECT_NEAR(difference.cosine, 16 / std::sqrt(20.0 * 14.0), 1e-12);
  EXPECT_EQ(difference.elements, 3);
  EXPECT_EQ(difference.mismatches, 2);
  EXPECT_EQ(difference.reason, "[0]: 1 where 0 was expected (2 of 3 elements differ)");
}

TEST(Compare, CosineOfZeros) {
  const auto cosine = [](const char* expected, const char* got) {
    return compare(read(ElementType::float32, expected), read(ElementType::float32, got), exactly()).cosine;
  };
  EXPECT_EQ(cosine("[0, 0]", "[0, 0]"), 1);
  EXPECT_EQ(cosine("[0, 0]", "[0, 1]"), 0);
  EXPECT_EQ(cosine("[1, 0]", "[-1, 0]"), -1);
  EXPECT_EQ(cosine("[]", "[]"), 1);
  const Value large = read(ElementType::float64, "[1e308, 0.1, 0.3]");
  EXPECT_EQ(compare(large, large, exactly()).cosine, 1);
}

TEST(Compare, TellsOfTypesAndShapes) {
  const auto reason = [](const Value& expected, const Value& got) {
    const Difference difference = compare(expected, got, provider_tolerance);
    EXPECT_FALSE(difference.within);
    return difference.reason;
  };
  EXPECT_EQ(reason(read(ElementType::float32, "[1]"), read(ElementType::float64, "[1]")),
            "float64[1] where float32[1] was expected");
  EXPECT_EQ(reason(read(ElementType::float32, "[[1]]"), read(ElementType::float32, "[1]")),
            "float32[1] where float32[1, 1] was expected");
  EXPECT_EQ(reason(read(ElementType::float32, "[1]"), std::monostate{}), "nothing where a tensor was expected");
  EXPECT_EQ(reason(Sequence{{read(ElementType::float32, "[1]")}}, Sequence{}),
            "a sequence of 0 where one of 1 was expected");
  EXPECT_EQ(reason(Tensor::allocate(ElementType::complex64, {1}), Tensor::allocate(ElementType::complex64, {1})),
            "complex64 tensors are not compared");
  EXPECT_EQ(reason(read(ElementType::int32, "[[1, 2], [3, 4]]"), read(ElementType::int32, "[[1, 2], [5, 4]]")),
            "[1][0]: 5 where 3 was expected");
  EXPECT_EQ(reason(Sequence{{read(ElementType::int32, "[1]"), read(ElementType::int32, "[2]")}},
                   Sequence{{read(ElementType::int32, "[1]"), read(ElementType::int32, "[3]")}}),
            "[1][0]: 3 where 2 was expected");
}

TEST(Compare, ComparesMapsByKeysAndValues) {
  const auto map = [](const char* keys, const char* values) {
    return Map{*read(ElementType::string, keys).tensor(), *read(ElementType::float32, values).tensor()};
  };
  const Value expected = map(R"(["a", "b"])", "[1, 2]");
  EXPECT_TRUE(compare(expected, map(R"(["a", "b"])", "[1, 2.0005]"), provider_tolerance).within);
  EXPECT_FALSE(compare(expected, map(R"(["a", "b"])", "[1, 2.5]"), provider_tolerance).within);
  EXPECT_EQ(compare(expected, map(R"(["a", "c"])", "[1, 2]"), provider_tolerance).reason,
            "keys[1]: 'c' where 'b' was expected");
}

TEST(Compare, HoldsSuitesToTheirOwnTolerance) {
  const Value expected = read(ElementType::float32, "[0]");
  EXPECT_FALSE(compare(expected, read(ElementType::float32, "[1e-6]"), suite_tolerance).within);
  EXPECT_TRUE(compare(expected, read(ElementType::float32, "[1e-6]"), provider_tolerance).within);
}

TEST(Compare, BoolsAndStringsKnowNoTolerance) {
  const ToleranceOf wide = [](ElementType) { return Tolerance{10, 10}; };
  EXPECT_FALSE(compare(read(ElementType::boolean, "[true]"), read(ElementType::boolean, "[false]"), wide).within);
  EXPECT_FALSE(compare(read(ElementType::string, R"(["a"])"), read(ElementType::string, R"(["b"])"), wide).within);
  EXPECT_TRUE(compare(read(ElementType::int8, "[1]"), read(ElementType::int8, "[5]"), wide).within);
}

}  // namespace
}  // namespace gpux::runtime
