#include "tensor/json_reader.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "tensors.h"

namespace gpux::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Sizes = std::optional<std::vector<std::int64_t>>;

Tensor read(std::string_view text, ElementType element, const Sizes& sizes = std::nullopt) {
  return *read_json_value(text, tensor_type(element, sizes), "x").tensor();
}

std::string refusal(std::string_view text, ElementType element, const Sizes& sizes = std::nullopt) {
  return refusal_of([&] { read(text, element, sizes); });
}

TEST(JsonReader, ShapesFollowTheNesting) {
  const struct {
    std::string text;
    Sizes declared;
    Shape expected;
  } cases[] = {
      {"5", std::nullopt, {}},
      {"5", {{}}, {}},
      {"[1,2,3]", std::nullopt, {3}},
      {" [ 1 , 2\n,\t3 ] ", {{any}}, {3}},
      {"[[1,2,3],[4,5,6]]", std::nullopt, {2, 3}},
      {"[[1,2,3],[4,5,6]]", {{any, 3}}, {2, 3}},
      {"[[[1],[2]]]", {{1, 2, 1}}, {1, 2, 1}},
      {"[]", std::nullopt, {0}},
      {"[]", {{any, 3}}, {0, 3}},
      {"[]", {{any, any}}, {0, 0}},
      {"[[],[]]", std::nullopt, {2, 0}},
      {"[[],[]]", {{any, any, 4}}, {2, 0, 4}},
      {"[[[]]]", std::nullopt, {1, 1, 0}},
  };

  for (const auto& c : cases) EXPECT_EQ(read(c.text, ElementType::int32, c.declared).shape(), c.expected) << c.text;
}

TEST(JsonReader, RefusesOtherShapesWithThePlace) {
  const struct {
    std::string text;
    Sizes declared;
    std::string expected;
  } cases[] = {
      {"5", {{any, 3}}, "input 'x': 5 found where a list was expected (the type is float32[batch, 3])"},
      {"[5]", {{any, 3}}, "input 'x': [0]: 5 found where a list was expected"},
      {"[1,2,3]", {{}}, "input 'x': a list found where one element was expected (the type is float32[])"},
      {"[[1,[2],3]]", {{any, 3}}, "[0][1]: a list found where one element"},
      {"[[1,2],[1,2]]", {{any, 3}}, "[0]: 2 elements, not 3 (the type is float32[batch, 3])"},
      {"[[1,2,3],[1,2]]", {{any, any}}, "[1]: 2 elements where the list before has 3"},
      {"[[1],[2]]", {{1, 1}}, "input 'x': 2 elements, not 1"},
      {"[[1,2],3]", std::nullopt, "[1]: 3 found where a list was expected"},
      {"[1,[2]]", std::nullopt, "[1]: a list found where one element"},
      {"[[],[1]]", std::nullopt, "[1]: 1 elements where the list before has 0"},
      {"[[],[[1]]]", std::nullopt, "[1][0]: a list found"},
      {"[1,2", std::nullopt, "[2]: the end of the text found where ',' or ']'"},
      {"[1,]", std::nullopt, "[1]: ] is not a float32"},
      {"[,1]", std::nullopt, "[0]: , is not a float32"},
      {"[1 2]", std::nullopt, "[1]: 2 found where ',' or ']'"},
      {"[1]]", std::nullopt, "] stands behind the value"},
      {"[1] 2", std::nullopt, "2 stands behind the value"},
      {"1 2", std::nullopt, "2 stands behind the value"},
      {"", std::nullopt, "the end of the text is not a float32"},
      {"[", std::nullopt, "the end of the text is not a float32"},
      {"{\"a\":1}", std::nullopt, "{ is not a float32"},
      {"[1}", std::nullopt, "} found where ',' or ']'"},
  };

  for (const auto& c : cases) EXPECT_THAT(refusal(c.text, ElementType::float32, c.declared), HasSubstr(c.expected));
}

// The type's sizes say how much memory to take; a text that is shorter than that has the last word.
TEST(JsonReader, DeclaredSizesAreNotBelieved) {
  constexpr std::int64_t enormous = std::int64_t{1} << 40;
  for (const Sizes& sizes : std::vector<Sizes>{{{enormous}}, {{enormous, enormous}}, {{3}}}) {
    const std::string text = sizes->size() == 1 ? "[1,2]" : "[[1,2]]";
    EXPECT_THAT(refusal(text, ElementType::float32, sizes), HasSubstr("2 elements, not "));
    EXPECT_THAT(refusal(text, ElementType::string, sizes), HasSubstr("1 is not a string"));
  }
  EXPECT_THAT(refusal("[1,2,3,4,5,6,7,8]", ElementType::float32, {{3}}), HasSubstr("8 elements, not 3"));
  EXPECT_THAT(refusal("[[1,2],[3,4],[5,6]]", ElementType::float32, {{2, 2}}), HasSubstr("3 elements, not 2"));
}

TEST(JsonReader, ReadsEveryElementIntoItsPlace) {
  for (const Sizes& sizes : std::vector<Sizes>{std::nullopt, {{any, 2}}, {{2, 2}}}) {
    EXPECT_THAT(read("[[1.5, -2], [ 3e1 ,4]]", ElementType::float32, sizes).as<float>(), ElementsAre(1.5F, -2, 30, 4));
    EXPECT_THAT(read("[[1,2],[\"NaN\",4]]", ElementType::float32, sizes).as<float>(),
                ElementsAre(1, 2, testing::IsNan(), 4));
    EXPECT_THAT(read("[[1,2],[3,-4]]", ElementType::int64, sizes).as<std::int64_t>(), ElementsAre(1, 2, 3, -4));
  }
}

TEST(JsonReader, DeepTextsEndCleanly) {
  EXPECT_THAT(refusal(std::string(1000000, '['), ElementType::float32), HasSubstr("deeper than 64"));
  EXPECT_THAT(refusal(std::string(1000000, '['), ElementType::float32, {{any}}), HasSubstr("a list found"));
  EXPECT_THAT(refusal(std::string(1000000, '{'), ElementType::float32), HasSubstr("{ is not a float32"));
}

TEST(JsonReader, IntegersAreExactOrRefused) {
  const struct {
    ElementType type;
    std::string text;
    std::string expected;  // of the number as to_string() writes it
  } accepted[] = {
      {ElementType::int64, "9223372036854775807", "9223372036854775807"},
      {ElementType::int64, "-9223372036854775808", "-9223372036854775808"},
      {ElementType::int64, "9007199254740993", "9007199254740993"},
      {ElementType::int64, "1.0", "1"},
      {ElementType::int64, "1e2", "100"},
      {ElementType::int64, "-12.50E1", "-125"},
      {ElementType::int64, "9223372036854775807.000", "9223372036854775807"},
      {ElementType::int64, "922337203685477580700e-2", "9223372036854775807"},
      {ElementType::int64, "0e999999999999999999999", "0"},
      {ElementType::int64, "-0", "0"},
      {ElementType::int64, "-0.0", "0"},
      {ElementType::int64, "1000000000000000000e0", "1000000000000000000"},
  };

  for (const auto& c : accepted) {
    EXPECT_EQ(std::to_string(read(c.text, c.type).as<std::int64_t>()[0]), c.expected) << c.text;
  }
  EXPECT_EQ(read("18446744073709551615", ElementType::uint64).as<std::uint64_t>()[0], ~std::uint64_t{0});
  EXPECT_EQ(read("-0", ElementType::uint64).as<std::uint64_t>()[0], 0U);
  EXPECT_THAT(read("[-128,127]", ElementType::int8).as<std::int8_t>(), ElementsAre(-128, 127));
  EXPECT_THAT(read("[0,65535]", ElementType::uint16).as<std::uint16_t>(), ElementsAre(0, 65535));
  EXPECT_THAT(read("[-2147483648]", ElementType::int32).as<std::int32_t>(), ElementsAre(-2147483648));

  const struct {
    ElementType type;
    std::string text;
    std::string expected;
  } refused[] = {
      {ElementType::uint8, "300", "300 does not fit uint8 (0 to 255)"},
      {ElementType::uint8, "-1", "-1 does not fit uint8 (0 to 255)"},
      {ElementType::int8, "128", "128 does not fit int8 (-128 to 127)"},
      {ElementType::int8, "-129", "-129 does not fit int8"},
      {ElementType::int32, "2147483648", "2147483648 does not fit int32 (-2147483648 to 2147483647)"},
      {ElementType::int64, "9223372036854775808", "9223372036854775808 does not fit int64"},
      {ElementType::int64, "-9223372036854775809", "-9223372036854775809 does not fit int64"},
      {ElementType::uint64, "18446744073709551616",
       "18446744073709551616 does not fit uint64 (0 to 18446744073709551615)"},
      {ElementType::uint64, "100000000000000000000000", "100000000000000000000000 does not fit uint64"},
      {ElementType::uint64, "1e400", "1e400 does not fit uint64"},
      {ElementType::uint64, "1e99999999999999999999999", "1e99999999999999999999999 does not fit uint64"},
      {ElementType::int64, "1.5", "1.5 is not whole, an int64 is"},
      {ElementType::int64, "1e-1", "1e-1 is not whole"},
      {ElementType::int64, "1e-99999999999999999999999", "1e-99999999999999999999999 is not whole"},
      {ElementType::int64, "0.00000000000000000000001", "0.00000000000000000000001 is not whole"},
      {ElementType::uint8, "01", "01 is not a uint8"},
      {ElementType::int8, "-", "- is not an int8"},
      {ElementType::int8, "+1", "+1 is not an int8"},
      {ElementType::int8, "1.", "1. is not an int8"},
      {ElementType::int8, "1e", "1e is not an int8"},
      {ElementType::int8, "0x1", "0x1 is not an int8"},
      {ElementType::int8, "1a", "1a is not an int8"},
      {ElementType::int8, "\"1\"", "\"1\" is not an int8"},
      {ElementType::int8, "true", "true is not an int8"},
      {ElementType::int8, "NaN", "NaN is not an int8"},
      {ElementType::uint4, "16", "16 does not fit uint4 (0 to 15)"},
      {ElementType::int4, "-9", "-9 does not fit int4 (-8 to 7)"},
      {ElementType::uint2, "4", "4 does not fit uint2 (0 to 3)"},
      {ElementType::int2, "2", "2 does not fit int2 (-2 to 1)"},
  };

  for (const auto& c : refused) {
    EXPECT_THAT(refusal("[[1],[" + c.text + "]]", c.type), HasSubstr("input 'x': [1][0]: " + c.expected));
  }
}

TEST(JsonReader, PackedTypesLieAsOnnxPacksThem) {
  EXPECT_THAT(read("[[1,-8,7],[-1,0,3]]", ElementType::int4).bytes(),
              ElementsAre(std::byte{0x81}, std::byte{0xf7}, std::byte{0x30}));
  EXPECT_THAT(read("[15,1,2]", ElementType::uint4).bytes(), ElementsAre(std::byte{0x1f}, std::byte{0x02}));
  EXPECT_THAT(read("[3,2,1,0,1]", ElementType::uint2).bytes(), ElementsAre(std::byte{0x1b}, std::byte{0x01}));
  EXPECT_THAT(read("[-2,1,0,-1]", ElementType::int2).bytes(), ElementsAre(std::byte{0xc6}));
}

TEST(JsonReader, DecimalsRoundOnceToTheDeclaredType) {
  EXPECT_EQ(read("0.1", ElementType::float32).as<float>()[0], 0.1F);
  EXPECT_EQ(read("0.1", ElementType::float64).as<double>()[0], 0.1);
  // Just above halfway between two floats: by way of double it would fall to the even one below.
  EXPECT_EQ(read("1.00000005960464477539062500000000001", ElementType::float32).as<float>()[0], 0x1.000002p0F);
  EXPECT_EQ(read("1.000000059604644775390625", ElementType::float32).as<float>()[0], 1.0F);
  EXPECT_EQ(read("16777217", ElementType::float32).as<float>()[0], 16777216.0F);
  EXPECT_EQ(read("3.4028235e38", ElementType::float32).as<float>()[0], std::numeric_limits<float>::max());
  EXPECT_EQ(read("1e-46", ElementType::float32).as<float>()[0], 0.0F);
  EXPECT_EQ(read("5e-324", ElementType::float64).as<double>()[0], std::numeric_limits<double>::denorm_min());
  EXPECT_TRUE(std::signbit(read("-0.0", ElementType::float32).as<float>()[0]));
  EXPECT_EQ(read("2049.0000000000000000001", ElementType::float16).as<Float16>()[0].bits, 0x6801);
  EXPECT_EQ(read("2049", ElementType::float16).as<Float16>()[0].bits, 0x6800);
  EXPECT_EQ(read("65519.99999999999999999999", ElementType::float16).as<Float16>()[0].bits, 0x7bff);
  const std::string long_number = "0." + std::string(100000, '3');
  EXPECT_EQ(read(long_number, ElementType::float64).as<double>()[0], 1.0 / 3);

  const struct {
    ElementType type;
    std::string text;
    std::string expected;
  } refused[] = {
      {ElementType::float64, "1e400", "1e400 does not fit float64 (largest 1.7976931348623157e+308)"},
      {ElementType::float64, "-1e400", "-1e400 does not fit float64"},
      {ElementType::float32, "1e400", "1e400 does not fit float32"},
      {ElementType::float32, "1e39", "1e39 does not fit float32 (largest 3.4028235e+38)"},
      {ElementType::float32, "3.4028236e38", "3.4028236e38 does not fit float32"},
      {ElementType::float16, "70000", "70000 does not fit float16 (largest 65504)"},
      {ElementType::float16, "65520", "65520 does not fit float16"},
      {ElementType::float16, "1e400", "1e400 does not fit float16"},
      {ElementType::bfloat16, "3.4e38", "3.4e38 does not fit bfloat16"},
      {ElementType::float8e4m3fn, "500", "500 does not fit float8e4m3fn (largest 448)"},
      {ElementType::float8e8m0, "0", "0 does not fit float8e8m0 (powers of two"},
      {ElementType::float32, "null", "null is not a float32: write \"NaN\""},
      {ElementType::float16, "null", "null is not a float16: write \"NaN\""},
  };

  for (const auto& c : refused) {
    EXPECT_THAT(refusal("[[1],[" + c.text + "]]", c.type), HasSubstr("input 'x': [1][0]: " + c.expected));
  }
  for (const std::string text : {"01",  "-01",  "1.",   ".5",   "1.e5",    "1e",    "1e+",   "+1",        "-",
                                 "inf", "-inf", "nan",  "Nan",  "\"inf\"", "\"NaN", "NaNx",  "Infinity1", "--1",
                                 "1_0", "1,5x", "0x10", "true", "\"1\"",   "1e5.5", "1.2.3", "- 1",       "-NaN"}) {
    for (const ElementType type : {ElementType::float32, ElementType::float64, ElementType::float16}) {
      refusal(std::string("[").append(text).append("]"), type);
    }
  }
}

TEST(JsonReader, ReadsNonFiniteWords) {
  const Tensor tensor = read(R"(["NaN", NaN, "Infinity", Infinity, "-Infinity",-Infinity])", ElementType::float32);
  const std::span<const float> values = tensor.as<float>();
  EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[1]));
  EXPECT_TRUE(std::isinf(values[2]) && values[2] > 0 && values[3] == values[2]);
  EXPECT_TRUE(std::isinf(values[4]) && values[4] < 0 && values[5] == values[4]);
}

TEST(JsonReader, ReadsBoolsAndStrings) {
  EXPECT_THAT(read("[true,false,1,0]", ElementType::boolean).as<bool>(), ElementsAre(true, false, true, false));
  for (const std::string text : {"2", "-1", "\"true\"", "True", "null", "truex"}) {
    EXPECT_THAT(refusal("[" + text + "]", ElementType::boolean), HasSubstr("[0]: " + text + " is not a bool"));
  }
  EXPECT_THAT(
      read(R"(["", "a\"\\\/\b\f\n\r\t", "\u00e9\ud83d\ude42", "é🙂", "a\u0000b"])", ElementType::string).strings(),
      ElementsAre("", "a\"\\/\b\f\n\r\t", "é🙂", "é🙂", std::string("a\0b", 3)));

  const struct {
    std::string text;
    std::string expected;
  } refused[] = {
      {"5", "5 is not a string"},
      {"[null]", "[0]: null is not a string"},
      {"\"a", "the string has no end"},
      {"\"a\nb\"", "a control character"},
      {"\"\\x\"", "a backslash is followed by none of"},
      {"\"\\", "a backslash is followed by none of"},
      {"\"\\u12\"", "four hexadecimal digits"},
      {"\"\\u12", "four hexadecimal digits"},
      {"\"\\ud800\"", "surrogate"},
      {"\"\\ud800\\n\"", "surrogate"},
      {"\"\\ud800\\u0041\"", "surrogate"},
      {"\"\\udc00\"", "surrogate"},
      {"\"\xff\"", "not UTF-8"},
      {"\"\xc0\x80\"", "not UTF-8"},
      {"\"\xed\xa0\x80\"", "not UTF-8"},
      {"\"\xf4\x90\x80\x80\"", "not UTF-8"},
      {"\"\xe2\x82\"", "not UTF-8"},
  };

  for (const auto& c : refused) EXPECT_THAT(refusal(c.text, ElementType::string), HasSubstr(c.expected)) << c.text;
}

TEST(JsonReader, MessagesStayShortAndPrintable) {
  const std::string message = refusal("[" + std::string(100000, 'x') + "]", ElementType::float32);
  EXPECT_LT(message.size(), 200U);
  EXPECT_THAT(refusal("[\x01\xff]", ElementType::float32), HasSubstr(R"([0]: \x01\xff is not a float32)"));
}

TEST(JsonReader, TypesWithoutAJsonFormAreNamed) {
  EXPECT_THAT(refusal("1", ElementType::complex64), HasSubstr("complex64 tensors have no JSON form"));
  EXPECT_THAT(refusal("1", ElementType::complex128), HasSubstr("complex128 tensors have no JSON form"));
  const ValueType sparse{.kind = ValueKind::sparse_tensor, .element = ElementType::float32};
  EXPECT_THAT(refusal_of([&] { read_json_value("1", sparse, "x"); }), HasSubstr("sparse float32"));
}

ValueType sequence_of(ValueType inner) {
  return {.kind = ValueKind::sequence, .inner = {std::move(inner)}};
}

ValueType optional_of(ValueType inner) {
  return {.kind = ValueKind::optional, .inner = {std::move(inner)}};
}

ValueType map_of(ElementType key, ValueType value) {
  return {.kind = ValueKind::map, .element = key, .inner = {std::move(value)}};
}

TEST(JsonReader, ReadsSequences) {
  const ValueType type = sequence_of(tensor_type(ElementType::int64, {{any}}));
  const Value value = read_json_value(" [ [1,2] , [], [3] ] ", type, "x");
  ASSERT_NE(value.sequence(), nullptr);
  const std::vector<Value>& values = value.sequence()->values;
  ASSERT_EQ(values.size(), 3U);
  EXPECT_THAT(values[0].tensor()->as<std::int64_t>(), ElementsAre(1, 2));
  EXPECT_EQ(values[1].tensor()->shape(), Shape{0});
  EXPECT_TRUE(read_json_value("[]", type, "x").sequence()->values.empty());
  const auto message = [&](std::string_view text) { return refusal_of([&] { read_json_value(text, type, "x"); }); };
  EXPECT_THAT(message("[[1],[2,true]]"), HasSubstr("input 'x': [1][1]: true is not an int64"));
  EXPECT_THAT(message("[[1],"), HasSubstr("[1]: the end of the text found where a list"));
  EXPECT_THAT(message("[[1],null]"), HasSubstr("[1]: null is not int64[batch]"));
  EXPECT_THAT(message("[[1]"), HasSubstr("the end of the text found where ',' or ']'"));
  EXPECT_THAT(message("5"), HasSubstr("5 found where '[' was expected (the type is sequence(int64[batch]))"));
}

TEST(JsonReader, ReadsMaps) {
  const Value named = read_json_value(R"({"b": 1.5, "a": 2})",
                                      map_of(ElementType::string, tensor_type(ElementType::float32, {{}})), "x");
  ASSERT_NE(named.map(), nullptr);
  EXPECT_THAT(named.map()->keys.strings(), ElementsAre("b", "a"));
  EXPECT_EQ(named.map()->values.shape(), Shape{2});
  EXPECT_THAT(named.map()->values.as<float>(), ElementsAre(1.5F, 2.0F));

  const ValueType numbered = map_of(ElementType::int64, tensor_type(ElementType::string));
  const Value value = read_json_value(R"({"-5": ["p","q"], "9223372036854775807": ["r","s"]})", numbered, "x");
  EXPECT_THAT(value.map()->keys.as<std::int64_t>(), ElementsAre(-5, std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(value.map()->values.shape(), (Shape{2, 2}));
  EXPECT_THAT(value.map()->values.strings(), ElementsAre("p", "q", "r", "s"));

  const Value packed =
      read_json_value(R"({"1": 3, "2": -4, "3": 1})", map_of(ElementType::int64, tensor_type(ElementType::int4)), "x");
  EXPECT_THAT(packed.map()->values.bytes(), ElementsAre(std::byte{0xc3}, std::byte{0x01}));

  EXPECT_EQ(read_json_value("{}", numbered, "x").map()->values.shape(), Shape{0});

  const struct {
    std::string text;
    std::string expected;
  } refused[] = {
      {R"({"1": "a", "1": "b"})", "[\"1\"]: the map has the key twice"},
      {R"({"1": "a", "1.0": "b"})", "two keys are the same number"},
      {R"({"a": "b"})", "key a is not an int64"},
      {R"({"1 ": "b"})", "is not an int64"},
      {R"({"": "b"})", "is not an int64"},
      {R"({"1": 5})", "[\"1\"]: 5 is not a string"},
      {R"({"1": ["a"], "2": ["a","b"]})", "values of shapes [1] and [2]"},
      {R"({1: "a"})", "1 found where a key in quotes"},
      {R"({"1" "a"})", "found where ':' was expected"},
      {R"(["1"])", "[ found where '{' was expected"},
      {R"({"1": "a",})", "} found where a key in quotes"},
  };

  for (const auto& c : refused) {
    EXPECT_THAT(refusal_of([&] { read_json_value(c.text, numbered, "x"); }), HasSubstr(c.expected)) << c.text;
  }
}

TEST(JsonReader, ReadsOptionals) {
  const ValueType type = optional_of(tensor_type(ElementType::float32, {{any}}));
  EXPECT_TRUE(read_json_value(" null ", type, "x").is_none());
  EXPECT_THAT(read_json_value("[1]", type, "x").tensor()->as<float>(), ElementsAre(1.0F));
  EXPECT_TRUE(read_json_value("null", optional_of(sequence_of(tensor_type(ElementType::float32))), "x").is_none());
  EXPECT_THAT(refusal("null", ElementType::float32, {{any}}),
              HasSubstr("null is not float32[batch]: only an optional"));
  EXPECT_THAT(refusal_of([&] { read_json_value("null null", type, "x"); }), HasSubstr("stands behind the value"));
}

}  // namespace
}  // namespace gpux::test
