#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/runnable_kernels.h"
#include "small_encoder.h"

namespace gpux_cpu::encoder {
namespace {

double cosine(const float* a, const float* b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < hidden_size; ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

class EncoderIn : public testing::TestWithParam<Precision> {};

TEST_P(EncoderIn, GivesATextTheSameBitsWhateverItIsRunWith) {
  constexpr std::size_t count = 30;
  const Texts texts(count);
  for (const Kernels* kernels : runnable()) {
    SCOPED_TRACE(std::string(kernels->name));
    const Encoder encoder(small_model(GetParam()), *kernels);
    const std::vector<float> together = vectors_of(encoder, texts.batch(0, count), 1);
    for (const std::size_t threads : {1, 2, 3, 64}) {
      ASSERT_EQ(vectors_of(encoder, texts.batch(0, count), threads), together) << threads;
      for (std::size_t text = 0; text < count; ++text) {
        const auto first = together.begin() + static_cast<std::ptrdiff_t>(text * hidden_size);
        ASSERT_EQ(vectors_of(encoder, texts.batch(text, 1), threads), std::vector<float>(first, first + hidden_size))
            << text;
      }
    }
    // Nor does it matter whether the hidden states are wanted, too.
    std::vector<float> vectors(count * hidden_size), states(count * max_length * hidden_size);
    encoder.run(texts.batch(0, count), 2, one_after_the_other, {vectors.data(), states.data()});
    EXPECT_EQ(vectors, together);
  }
}

TEST_P(EncoderIn, IsNearFloat32OfTheReferenceAndTheSameElsewhere) {
  constexpr std::size_t count = 8;
  const Texts texts(count);
  const auto vectors = [&](Precision precision, const Kernels& kernels, std::size_t threads) {
    return vectors_of(Encoder(small_model(precision), kernels), texts.batch(0, count), threads);
  };
  const std::vector<float> exact = vectors(Precision::fp32, reference(), 1);
  const std::vector<float> expected = vectors(GetParam(), reference(), 1);
  const double least = GetParam() == Precision::fp32 ? 0.999999 : GetParam() == Precision::bf16 ? 0.999 : 0.99;
  const bool has_bytes = GetParam() == Precision::int8 || GetParam() == Precision::int8_bf16;
  const double least_elsewhere = has_bytes ? 0.999 : 0.9999;
  for (const Kernels* kernels : runnable()) {
    SCOPED_TRACE(std::string(kernels->name));
    const std::vector<float> got = vectors(GetParam(), *kernels, 2);
    for (std::size_t text = 0; text < count; ++text) {
      EXPECT_GT(cosine(got.data() + text * hidden_size, exact.data() + text * hidden_size), least);
      EXPECT_GT(cosine(got.data() + text * hidden_size, expected.data() + text * hidden_size), least_elsewhere);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Encoder, EncoderIn,
                         testing::Values(Precision::fp32, Precision::bf16, Precision::int8, Precision::int8_bf16));

TEST(Encoder, HasQueriesOfTheLastTwoLayersInBfloat16WhereInt8IsMixed) {
  const auto precisions_of = [](Precision precision) {
    std::vector<Precision> found;
    for (const Layer& layer : small_model(precision).layers) {
      for (const Linear* linear :
           {&layer.query_key_value, &layer.attention_output, &layer.up_projection, &layer.down_projection}) {
        found.push_back(linear->precision());
      }
    }
    return found;
  };
  constexpr Precision bytes = Precision::int8, bfloat16s = Precision::bf16;
  EXPECT_EQ(precisions_of(Precision::int8_bf16), (std::vector{bytes, bytes, bytes, bytes,      //
                                                              bfloat16s, bytes, bytes, bytes,  //
                                                              bfloat16s, bytes, bytes, bytes}));
  EXPECT_EQ(precisions_of(Precision::int8), std::vector(12, bytes));
}

TEST(Encoder, HasZerosForATextWithoutATokenThatCounts) {
  const Encoder encoder(small_model(Precision::fp32), kernels());
  Texts texts(2);
  std::fill_n(texts.attention_mask.begin(), max_length, 0);
  const std::vector<float> vectors = vectors_of(encoder, texts.batch(0, 2), 1);
  EXPECT_TRUE(std::all_of(vectors.begin(), vectors.begin() + hidden_size, [](float value) { return value == 0; }));
  EXPECT_NE(vectors[hidden_size], 0);
}

TEST(Encoder, TakesTheFirstPlaceForClsThoughItDoesNotCount) {
  Weights weights = small_model(Precision::fp32);
  weights.pooling = Pooling::cls;
  weights.normalize = false;
  const Encoder encoder(std::move(weights), kernels());
  Texts texts(3);
  std::fill_n(texts.attention_mask.begin(), 5, 0);                            // padded on the left
  std::fill_n(texts.attention_mask.begin() + 2 * max_length, max_length, 0);  // without any
  const Batch batch = texts.batch(0, 3);
  std::vector<float> vectors(3 * hidden_size), states(3 * max_length * hidden_size), alone(3 * hidden_size);
  encoder.run(batch, 1, one_after_the_other, {vectors.data(), states.data()});
  encoder.run(batch, 2, one_after_the_other, {alone.data(), nullptr});
  for (std::size_t text = 0; text < 3; ++text) {
    const auto first = states.begin() + static_cast<std::ptrdiff_t>(text * max_length * hidden_size);
    EXPECT_TRUE(
        std::equal(first, first + hidden_size, vectors.begin() + static_cast<std::ptrdiff_t>(text * hidden_size)));
  }
  EXPECT_EQ(alone, vectors);
}

// What a mask makes of hidden keys matters only where there are no others.
TEST(Encoder, DoesWithATextWithoutTokensWhatItsMaskDoes) {
  Texts texts(1);
  std::fill(texts.attention_mask.begin(), texts.attention_mask.end(), 0);
  const auto states_with = [&](const MaskedKeys& keys) {
    Weights weights = small_model(Precision::fp32);
    weights.masked_keys = keys;
    std::vector<float> states(max_length * hidden_size);
    Encoder(std::move(weights), kernels()).run(texts.batch(0, 1), 1, one_after_the_other, {nullptr, states.data()});
    return states;
  };
  constexpr float lowest = std::numeric_limits<float>::lowest(), infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> even = states_with({lowest, false, false});
  EXPECT_EQ(states_with({-1e30F, true, false}), even);
  EXPECT_NE(states_with({-10000, false, false}), even);
  const std::vector<float> none = states_with({-infinity, false, true});
  EXPECT_NE(none, even);
  EXPECT_TRUE(std::ranges::all_of(none, [](float value) { return std::isfinite(value); }));
  EXPECT_TRUE(std::isnan(states_with({-infinity, true, false}).front()));
}

TEST(Encoder, CountsTokensFromTheFrontWhereItsMaskIsANumberOfThem) {
  Weights weights = small_model(Precision::fp32);
  weights.mask_from_front = true;
  const Encoder encoder(std::move(weights), kernels()), plain(small_model(Precision::fp32), kernels());
  Texts texts(1), front(1);
  texts.attention_mask.assign(max_length, 0);
  front.attention_mask.assign(max_length, 0);
  for (const std::size_t position : {3, 7, 20}) texts.attention_mask[position] = 1;
  std::fill_n(front.attention_mask.begin(), 3, 1);
  EXPECT_EQ(vectors_of(encoder, texts.batch(0, 1), 1), vectors_of(plain, front.batch(0, 1), 1));
}

TEST(Encoder, RefusesAMaskOfOtherNumbers) {
  const Encoder encoder(small_model(Precision::fp32), kernels());
  Texts texts(1);
  texts.attention_mask[2] = 2;
  EXPECT_THROW((void)vectors_of(encoder, texts.batch(0, 1), 1), InvalidInput);
}

TEST(Encoder, RefusesWhatItsTablesHaveNot) {
  const Encoder encoder(small_model(Precision::fp32), kernels());
  std::vector<float> vectors(hidden_size);
  std::vector<std::int64_t> ids(max_length + 1, 1), types(max_length + 1, 0);
  const auto run = [&](std::size_t length) {
    encoder.run({1, length, ids.data(), nullptr, types.data()}, 1, one_after_the_other, {vectors.data(), nullptr});
  };
  EXPECT_NO_THROW(run(max_length));
  EXPECT_THROW(run(max_length + 1), InvalidInput);
  for (const std::int64_t id : {std::int64_t{-1}, static_cast<std::int64_t>(vocabulary_size), INT64_MAX, INT64_MIN}) {
    ids[3] = id;
    EXPECT_THROW(run(4), InvalidInput) << id;
  }
  ids[3] = 1;
  types[0] = 2;
  EXPECT_THROW(run(4), InvalidInput);
}

}  // namespace
}  // namespace gpux_cpu::encoder
