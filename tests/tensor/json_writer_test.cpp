#include "tensor/json_writer.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include <gmock/gmock.h>

#include "tensor/json_reader.h"
#include "tensor/json_text.h"
#include "tensor/small_float.h"
#include "tensors.h"

namespace gpux::test {
namespace {

using ::testing::HasSubstr;

std::string written(const Value& value, NonFinite nonfinite = NonFinite::null) {
  std::string out;
  append_json(out, value, nonfinite);
  return out;
}

template <typename T>
Tensor tensor(Shape shape, std::vector<T> values) {
  return Tensor::of<T>(std::move(shape), std::span<const T>(values));
}

TEST(JsonWriter, WritesListsOfTheShape) {
  EXPECT_EQ(written(tensor<std::int32_t>({}, {5})), "5");
  EXPECT_EQ(written(tensor<std::int32_t>({3}, {1, 2, 3})), "[1,2,3]");
  EXPECT_EQ(written(tensor<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 6})), "[[1,2,3],[4,5,6]]");
  EXPECT_EQ(written(tensor<std::int32_t>({2, 1, 2}, {1, 2, 3, 4})), "[[[1,2]],[[3,4]]]");
  EXPECT_EQ(written(tensor<std::int32_t>({1, 1, 1}, {7})), "[[[7]]]");
  // As numpy's tolist().
  EXPECT_EQ(written(Tensor::allocate(ElementType::float32, {0})), "[]");
  EXPECT_EQ(written(Tensor::allocate(ElementType::float32, {0, 3})), "[]");
  EXPECT_EQ(written(Tensor::allocate(ElementType::float32, {2, 0, 3})), "[[],[]]");
  EXPECT_EQ(written(Tensor::allocate(ElementType::string, {1, 2, 0})), "[[[],[]]]");
  const Tensor hostile = Tensor::allocate(ElementType::float32, {std::int64_t{1} << 50, 0});
  EXPECT_THAT(message_of(ErrorCode::resource_exhausted, [&] { written(hostile); }), HasSubstr("empty lists"));
}

TEST(JsonWriter, WritesEachType) {
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(written(tensor<std::int64_t>({2}, {lowest, 9007199254740993})), "[-9223372036854775808,9007199254740993]");
  EXPECT_EQ(written(tensor<std::uint64_t>({1}, {~std::uint64_t{0}})), "[18446744073709551615]");
  EXPECT_EQ(written(tensor<std::uint8_t>({2}, {0, 255})), "[0,255]");
  EXPECT_EQ(written(tensor<std::int8_t>({2}, {-128, 65})), "[-128,65]");
  EXPECT_EQ(written(tensor<float>({4}, {0.1F, -0.0F, 1e20F, 16777216.0F})), "[0.1,-0,1e+20,16777216]");
  EXPECT_EQ(written(tensor<double>({2}, {0.1, 5e-324})), "[0.1,5e-324]");
  EXPECT_EQ(written(tensor<Float16>({4}, {{0x2e66}, {0x7bff}, {0x8000}, {0x3c00}})), "[0.099975586,65504,-0,1]");
  EXPECT_EQ(written(tensor<BFloat16>({2}, {{0x3dcd}, {0x7f7f}})), "[0.10009766,3.3895314e+38]");

  const struct {
    ElementType type;
    std::string json;
  } cases[] = {
      {ElementType::boolean, "[true,false,true]"},
      {ElementType::int4, "[-8,7,-1]"},
      {ElementType::uint4, "[15,0,1]"},
      {ElementType::int2, "[-2,1,0,-1,1]"},
      {ElementType::uint2, "[[3,2],[1,0]]"},
      {ElementType::float8e4m3fn, "[448,0.001953125]"},
      {ElementType::float4e2m1, "[6,-0.5,1.5]"},
      {ElementType::string, R"(["a","\"\\"])"},
  };

  for (const auto& c : cases) EXPECT_EQ(written(read_json_value(c.json, tensor_type(c.type), "x")), c.json);
  EXPECT_THAT(refusal_of([] { written(Tensor::allocate(ElementType::complex64, {1})); }), HasSubstr("complex64"));
}

// Who reads the numbers as float32 or float64 gets the model's, and who reads them as the type gets its bits.
TEST(JsonWriter, WritesSmallFloatsAsTheFloat32TheyAre) {
  const struct {
    ElementType type;
    std::uint32_t patterns;
  } types[] = {{ElementType::float16, 0x10000},    {ElementType::bfloat16, 0x10000},
               {ElementType::float8e4m3fn, 0x100}, {ElementType::float8e4m3fnuz, 0x100},
               {ElementType::float8e5m2, 0x100},   {ElementType::float8e5m2fnuz, 0x100},
               {ElementType::float8e8m0, 0x100},   {ElementType::float4e2m1, 0x10}};

  for (const auto& [type, patterns] : types) {
    for (std::uint32_t bits = 0; bits < patterns; ++bits) {
      const auto value = static_cast<float>(small_float_value(type, static_cast<std::uint16_t>(bits)));
      if (!std::isfinite(value)) continue;
      Tensor small = Tensor::allocate(type, {});
      small.mutable_bytes()[0] = static_cast<std::byte>(bits & 0xffU);
      if (small.mutable_bytes().size() > 1) small.mutable_bytes()[1] = static_cast<std::byte>(bits >> 8);
      const std::string text = written(small);
      ASSERT_EQ(text, written(tensor<float>({}, {value}))) << to_string(type);
      ASSERT_EQ(std::strtof(text.c_str(), nullptr), value) << to_string(type) << " " << text;
    }
  }
}

TEST(JsonExcerpt, ShowsLettersAsTheyAre) {
  const struct {
    std::string text, expected;
  } cases[] = {
      {R"("K\u00f6ln", 1)", R"("K\u00f6ln")"},
      {"\"K\xc3\xb6ln\", 1", "\"K\xc3\xb6ln\""},
      {"caf\xc3\xa9, 1", "caf\xc3\xa9"},
      {"\"a\tb\"", "\"a b\""},
      {"\"a\x01\"", "\"a\\x01\""},
      {"\"a\xff\"", "\"a\\xff\""},
      {"", "the end of the text"},
      // 37 bytes and no half of a character.
      {"\"" + std::string(35, 'a') + "\xc3\xb6" + std::string(9, 'a') + "\"", "\"" + std::string(35, 'a') + "..."},
  };

  for (const auto& [text, expected] : cases) EXPECT_EQ(json_excerpt(text), expected);
}

TEST(JsonWriter, WritesNonFiniteAsAsked) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor values = tensor<float>({4}, {std::nanf(""), infinity, -infinity, 1});
  EXPECT_EQ(written(values), "[null,null,null,1]");
  EXPECT_EQ(written(values, NonFinite::string), R"(["NaN","Infinity","-Infinity",1])");
  const Tensor small = tensor<Float16>({3}, {{0x7e01}, {0x7c00}, {0xfc00}});
  EXPECT_EQ(written(small, NonFinite::string), R"(["NaN","Infinity","-Infinity"])");
}

TEST(JsonWriter, EscapesStrings) {
  const std::string hostile("a\"\\\n\r\t\x01\x7f\0é🙂\xff\xed\xa0\x80\xe2\x82", 21);
  std::string out;
  append_json_string(out, hostile);
  const std::string unknown = "\xef\xbf\xbd";
  EXPECT_EQ(out,
            R"("a\"\\\n\r\t\u0001\u007f\u0000é🙂)" + unknown + unknown + unknown + unknown + unknown + unknown + "\"");
}

TEST(JsonWriter, WritesSequencesMapsAndNone) {
  EXPECT_EQ(written(Value{}), "null");
  Sequence sequence;
  EXPECT_EQ(written(sequence), "[]");
  sequence.values.emplace_back(tensor<float>({2}, {1, 2}));
  sequence.values.emplace_back(Map{Tensor::of_strings({2}, {"a", "b\n"}), tensor<float>({2}, {0.5, 0.25})});
  sequence.values.emplace_back(Map{tensor<std::int64_t>({2}, {-1, 7}), tensor<std::int32_t>({2, 2}, {1, 2, 3, 4})});
  sequence.values.emplace_back();
  EXPECT_EQ(written(sequence), R"([[1,2],{"a":0.5,"b\n":0.25},{"-1":[1,2],"7":[3,4]},null])");
  const Map broken{tensor<std::int64_t>({2}, {1, 2}), tensor<float>({1}, {1})};
  EXPECT_THAT(refusal_of([&] { written(broken); }), HasSubstr("2 keys has values of shape [1]"));
  const Map float_keys{tensor<float>({1}, {1}), tensor<float>({1}, {1})};
  EXPECT_THAT(refusal_of([&] { written(float_keys); }), HasSubstr("keys of float32"));
}

Shape random_shape(std::mt19937_64& random) {
  Shape shape(random() % 4);
  for (std::int64_t& size : shape) size = static_cast<std::int64_t>(random() % 5);
  return shape;
}

Tensor random_tensor(ElementType type, const Shape& shape, std::mt19937_64& random) {
  Tensor result = Tensor::allocate(type, shape);
  if (type == ElementType::string) {
    for (std::string& text : result.mutable_strings()) {
      for (std::size_t i = random() % 6; i > 0; --i) text += static_cast<char>(random() % 128);
      if (random() % 2 == 0) text += "é🙂";
    }
    return result;
  }
  for (std::byte& byte : result.mutable_bytes()) {
    byte = type == ElementType::boolean ? static_cast<std::byte>(random() & 1U) : static_cast<std::byte>(random());
  }
  return result;
}

TEST(JsonRoundTrip, WhatIsWrittenReadsBackEqual) {
  std::mt19937_64 random(20);  // NOLINT(cert-msc51-cpp): the same cases each time
  for (int number = 1; number <= 26; ++number) {
    const auto type = static_cast<ElementType>(number);
    if (type == ElementType::complex64 || type == ElementType::complex128) continue;
    for (int round = 0; round < 200; ++round) {
      const Shape shape = random_shape(random);
      const Tensor original = random_tensor(type, shape, random);
      const std::string json = written(original, NonFinite::string);
      const ValueType declared = tensor_type(type, std::vector<std::int64_t>(shape.size(), any));
      const Value value = read_json_value(json, declared, "x");
      // NaNs have many patterns, padding bits any value: what is read is compared as it is written.
      ASSERT_EQ(written(value, NonFinite::string), json) << to_string(type);
      const bool empty = original.element_count() == 0;
      ASSERT_TRUE(empty || value.tensor()->shape() == shape) << to_string(type) << " " << json;
      const bool exact = bits_of(type) >= 8 || type == ElementType::string;
      if (exact && !empty && json.find("NaN") == std::string::npos) {
        ASSERT_TRUE(same(original, *value.tensor())) << to_string(type) << " " << json;
      }
    }
  }
}

TEST(JsonRoundTrip, DamagedTextsNeverCrash) {
  std::mt19937_64 random(21);  // NOLINT(cert-msc51-cpp): the same cases each time
  const std::string characters = "[]{}\",:0123456789.eE+-NaInfity\\u \n\xff";
  const std::string whole = R"([[0.5, "NaN", -Infinity], [1e5, 2, 300]])";
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = whole;
    for (std::size_t i = 1 + random() % 3; i > 0; --i) {
      const std::size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text.erase(at, 1 + random() % 4);
      } else {
        text.insert(at, 1, characters[random() % characters.size()]);
      }
      if (text.empty()) text = "[";
    }
    const auto type = static_cast<ElementType>(1 + random() % 26);
    try {
      read_json_value(text, tensor_type(type), "x");
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::invalid_input);
      ++refused;
    }
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace gpux::test
