#include "generation/key_value_cache.h"

#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::generation {
namespace {

constexpr CacheLayout layout{.arrays = 3, .heads = 2, .head_size = 4, .type = ElementType::float32};
constexpr std::size_t slots = 2, tokens = 8;

void fill(const KeyValueCache& cache) {
  for (std::size_t array = 0; array < layout.arrays; ++array) {
    Tensor rows = cache.rows(array, 0, slots);
    const std::span<float> values(const_cast<float*>(rows.as<float>().data()), rows.as<float>().size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(1000 * array + i);
  }
}

void expect_filled(const KeyValueCache& cache) {
  for (std::size_t array = 0; array < layout.arrays; ++array) {
    const Tensor rows = cache.rows(array, 0, slots);
    const auto values = rows.as<float>();
    ASSERT_EQ(values.size(), slots * 2 * tokens * 4);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<float>(1000 * array + i)) << array;
  }
}

// Of three arrays of 60 TB at most two have addresses: those that have must not have changed.
TEST(KeyValueCache, ChangesNothingWhereItCannotGrow) {
  KeyValueCache cache(layout, slots);
  cache.reserve(tokens, {0, 0});
  fill(cache);
  for (const std::size_t bytes_of_array : {std::size_t{60} << 40U, std::size_t{120} << 40U}) {
    const std::size_t too_many = bytes_of_array / (slots * 2 * 4 * sizeof(float));
    try {
      cache.reserve(too_many, {tokens, tokens});
      FAIL() << "there are so many addresses";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    }
    EXPECT_EQ(cache.capacity(), tokens);
    expect_filled(cache);
  }
}

}  // namespace
}  // namespace gpux::generation
