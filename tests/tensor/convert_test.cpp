#include "tensor/convert.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "tensor/json_reader.h"
#include "tensor/json_writer.h"
#include "tensors.h"

namespace gpux::test {
namespace {

using ::testing::HasSubstr;

Tensor read(std::string_view json, ElementType type) {
  return *read_json_value(json, tensor_type(type), "x").tensor();
}

TEST(Convert, KeepsNumbersThatFit) {
  using enum ElementType;

  const struct {
    ElementType from;
    std::string json;
    ElementType to;
    std::string expected;
  } cases[] = {
      {float64, "[0.1,-2.5,\"NaN\",Infinity]", float32, "[0.1,-2.5,\"NaN\",\"Infinity\"]"},
      {float64, "[0.1,65519.99,1e-30]", float16, "[0.099975586,65504,0]"},
      {float64, "[0.1,NaN,-Infinity]", bfloat16, "[0.100097656,\"NaN\",\"-Infinity\"]"},
      {float64, "[1,-3,7e0]", int64, "[1,-3,7]"},
      {float64, "[9007199254740994]", uint64, "[9007199254740994]"},
      {int64, "[[1],[255]]", uint8, "[[1],[255]]"},
      {int64, "[-8,7,0]", int4, "[-8,7,0]"},
      {int64, "[0,1,3]", uint2, "[0,1,3]"},
      {int64, "[16777217,9007199254740993]", float32, "[16777216,9.007199e+15]"},
      {float32, "[1,-3]", int8, "[1,-3]"},
      {int64, "[0,1]", boolean, "[false,true]"},
      {boolean, "[true,false]", float32, "[1,0]"},
      {boolean, "[true,false]", int64, "[1,0]"},
      {uint64, "[18446744073709551615]", uint64, "[18446744073709551615]"},
      {float32, "[0.1]", float64, "[0.10000000149011612]"},
      {float16, "[0.1,NaN]", float32, "[0.099975586,\"NaN\"]"},
      {float16, "[448,0.5]", float8e4m3fn, "[448,0.5]"},
      {int4, "[-8,7]", int8, "[-8,7]"},
      {uint4, "[15,8]", float16, "[15,8]"},
      {float4e2m1, "[6,-1.5,0.5]", float32, "[6,-1.5,0.5]"},
      {int64, "7", float32, "7"},
      {int64, "[[],[]]", float32, "[[],[]]"},
  };

  for (const auto& c : cases) {
    std::string out;
    append_json(out, convert(read(c.json, c.from), c.to), NonFinite::string);
    EXPECT_EQ(out, c.expected) << to_string(c.from) << " " << c.json << " to " << to_string(c.to);
  }
}

TEST(Convert, LargeIntegersRoundOnce) {
  // 2^53 + 2^29 + 1 lies just above halfway between two floats; as a double it would lie on it.
  const Tensor converted = convert(read("[9007199791611905]", ElementType::int64), ElementType::float32);
  EXPECT_EQ(converted.as<float>()[0], 0x1.000002p53F);
  const std::int64_t just_above = (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1;  // for bfloat16
  const Tensor large = convert(Tensor::of<std::int64_t>({1}, std::span(&just_above, 1)), ElementType::bfloat16);
  EXPECT_EQ(large.as<BFloat16>()[0].bits, 0x5e81);
}

TEST(Convert, TheSameTypeSharesItsData) {
  const Tensor original = read("[1,2]", ElementType::float32);
  EXPECT_EQ(convert(original, ElementType::float32).bytes().data(), original.bytes().data());
  EXPECT_EQ(convert(read("[\"a\"]", ElementType::string), ElementType::string).strings()[0], "a");
}

TEST(Convert, RefusesWhatDoesNotFitWithThePlace) {
  using enum ElementType;

  const struct {
    ElementType from;
    std::string json;
    ElementType to;
    std::string expected;
  } cases[] = {
      {int64, "[[1,2],[3,300]]", uint8, "[1][1]: 300 does not fit uint8 (whole numbers from 0 to 255)"},
      {int64, "-1", uint64, "-1 does not fit uint64"},
      {int64, "[8]", int4, "[0]: 8 does not fit int4 (whole numbers from -8 to 7)"},
      {int64, "[2]", boolean, "2 does not fit bool"},
      {uint64, "[9223372036854775808]", int64, "does not fit int64"},
      {float64, "[0,1.5]", int64, "[1]: 1.5 does not fit int64"},
      {float32, "[0,1.5]", int64, "[1]: 1.5 does not fit int64"},
      {float32, "[1e19]", int64, "1e+19 does not fit int64"},
      {float64, "[NaN]", int64, "nan does not fit int64"},
      {float64, "[9223372036854775808]", int64, "does not fit int64"},
      {float64, "[18446744073709551616]", uint64, "does not fit uint64"},
      {float64, "[1e39]", float32, "1e+39 does not fit float32 (largest 3.4028235e+38)"},
      {float64, "[-1e39]", float32, "-1e+39 does not fit float32"},
      {float32, "[70000]", float16, "70000 does not fit float16 (largest 65504)"},
      {float32, "[Infinity]", float8e4m3fn, "inf does not fit float8e4m3fn"},
      {float32, "[0]", float8e8m0, "0 does not fit float8e8m0 (powers of two"},
      {float16, "[-0.5]", int32, "-0.5 does not fit int32"},
      {string, "[\"1\"]", int64, "string elements cannot be converted to int64"},
      {int64, "[1]", string, "int64 elements cannot be converted to string"},
      {int64, "[1]", complex64, "int64 elements cannot be converted to complex64"},
  };

  for (const auto& c : cases) {
    EXPECT_THAT(refusal_of([&] { convert(read(c.json, c.from), c.to); }), HasSubstr(c.expected)) << c.json;
  }
}

}  // namespace
}  // namespace gpux::test
