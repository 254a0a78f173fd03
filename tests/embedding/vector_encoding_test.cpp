#include "embedding/vector_encoding.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base64.h"
#include "gpux/error.h"

namespace gpux::embedding {
namespace {

std::vector<int> signed_of(const EncodedVector& encoded) {
  std::vector<int> numbers;
  for (const std::byte byte : encoded.bytes) numbers.push_back(static_cast<std::int8_t>(byte));
  return numbers;
}

std::vector<int> unsigned_of(const EncodedVector& encoded) {
  std::vector<int> numbers;
  for (const std::byte byte : encoded.bytes) numbers.push_back(std::to_integer<int>(byte));
  return numbers;
}

TEST(VectorEncodings, HaveTheirNames) {
  for (const char* name : {"float", "int8", "binary", "base64"}) {
    const auto encoding = vector_encoding_from(name);
    ASSERT_TRUE(encoding) << name;
    EXPECT_EQ(name_of(*encoding), name);
  }
  EXPECT_FALSE(vector_encoding_from("ubinary"));
}

TEST(VectorEncodings, QuantizeEachVectorByItsLargest) {
  constexpr float least = std::numeric_limits<float>::denorm_min();

  struct {
    std::vector<float> vector;
    float scale;
    std::vector<int> elements;
  } const cases[]{
      {{127, -127, 0, 1, 63}, 1, {127, -127, 0, 1, 63}},
      {{254, 1, 3, 5, -1, -3}, 2, {127, 0, 2, 2, 0, -2}},  // halves to even
      {{-0.5F, 0.25F}, 0.5F / 127, {-127, 64}},
      {{0, -0.0F}, 0, {0, 0}},
      {{least, -least}, 0, {0, 0}},
      {{least * 200, -least * 100}, least * 2, {100, -50}},
      {{}, 0, {}},
  };

  for (const auto& each : cases) {
    const EncodedVector encoded = encode(VectorEncoding::int8, each.vector);
    EXPECT_EQ(encoded.scale, each.scale);
    EXPECT_EQ(signed_of(encoded), each.elements);
  }
  for (const float odd : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    try {
      (void)encode(VectorEncoding::int8, std::vector<float>{1, odd});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    }
  }
}

TEST(VectorEncodings, PackSignsAsNumpyDoes) {
  // numpy.packbits(numpy.array(vector) > 0)
  struct {
    std::vector<float> vector;
    std::vector<int> bytes;
  } const cases[]{
      {{1, -1, 0, 2, -0.0F, 3, 4, -5}, {0b10010110}},
      {{1, -1, 1, 1, 1, 1, 1, 1, 1}, {0b10111111, 0b10000000}},
      {{std::nanf(""), 1}, {0b01000000}},
      {{}, {}},
  };

  for (const auto& each : cases) {
    EXPECT_EQ(unsigned_of(encode(VectorEncoding::binary, each.vector)), each.bytes);
    EXPECT_EQ(encoded_size(VectorEncoding::binary, each.vector.size()), each.bytes.size());
  }
}

TEST(VectorEncodings, WriteBase64OfTheirBytes) {
  EXPECT_EQ(to_base64(encode(VectorEncoding::base64, std::vector<float>{1, -2}).bytes), "AACAPwAAAMA=");
}

}  // namespace
}  // namespace gpux::embedding
