#include "decoder/decoder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_decoder.h"

namespace gpux_cpu::decoder {
namespace {

using Ids = std::vector<std::int64_t>;
using testing::HasSubstr;

Ids random_ids(std::size_t count, std::size_t vocabulary, unsigned seed) {
  std::mt19937 engine(seed);
  Ids ids(count);
  for (std::int64_t& id : ids) id = static_cast<std::int64_t>(engine() % vocabulary);
  return ids;
}

Ids part_of(const Ids& ids, std::size_t first, std::size_t count) {
  return {ids.begin() + static_cast<std::ptrdiff_t>(first), ids.begin() + static_cast<std::ptrdiff_t>(first + count)};
}

class Decoders : public testing::TestWithParam<SmallDecoder> {};

// Bytes and bfloat16 lose digits; what is left out, a wrong position or a masked key that counts shows beside them.
TEST_P(Decoders, ComputeWhatTheMathematicsSays) {
  const SmallDecoder& sizes = GetParam();
  const Decoder decoder(random_weights(sizes));
  const Ids ids = random_ids(40, sizes.vocabulary, 2);
  constexpr std::size_t capacity = 64;
  const bool has_floats = sizes.weights == "fp32" || sizes.weights.starts_with("stored");
  const bool is_exact = has_floats && sizes.cache_form == CacheForm::float32;
  const bool has_halves = has_floats && sizes.cache_form == CacheForm::float16;
  const double least = is_exact ? 1 - 1e-9 : has_halves ? 0.99999 : sizes.weights == "bf16" ? 0.999 : 0.99;
  CachedRow row(decoder, capacity);
  std::size_t done = 0;
  for (const std::size_t count : {1, 1, 5, 1, 30, 1, 1}) {
    const std::vector<float> got = append(decoder, {&row}, {part_of(ids, done, count)}, capacity).front();
    done += count;
    const std::vector<double> expected = plain_logits(decoder.weights(), part_of(ids, 0, done));
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      ab += got[i] * expected[i];
      aa += static_cast<double>(got[i]) * got[i];
      bb += expected[i] * expected[i];
    }
    EXPECT_GT(ab / std::sqrt(aa * bb), least) << done << " tokens";
    EXPECT_NEAR(std::sqrt(aa / bb), 1, is_exact ? 1e-5 : 0.1);
  }
}

// One token after the other, and prompts in chunks: the logits and the caches have the same bits.
TEST_P(Decoders, HaveTheSameBitsForAnyChunksOfAPrompt) {
  const SmallDecoder& sizes = GetParam();
  const Decoder decoder(random_weights(sizes));
  constexpr std::size_t length = 150, capacity = 160;
  const Ids ids = random_ids(length, sizes.vocabulary, 3);
  CachedRow expected_row(decoder, capacity);
  std::vector<std::vector<float>> expected;
  for (std::size_t i = 0; i < length; ++i) {
    expected.push_back(append(decoder, {&expected_row}, {{ids[i]}}, capacity).front());
  }
  std::size_t run = 0;
  for (const std::vector<std::size_t>& chunks :
       std::vector<std::vector<std::size_t>>{{150}, {1, 149}, {149, 1}, {64, 64, 22}, {7, 33, 100, 10}, {63, 2, 85}}) {
    const RunSettings settings{.threads = 1 + run % 3, .shares_memory = run % 2 == 0};
    ++run;
    CachedRow row(decoder, capacity);
    std::size_t done = 0;
    for (const std::size_t chunk : chunks) {
      const std::vector<float> got = append(decoder, {&row}, {part_of(ids, done, chunk)}, capacity, settings).front();
      done += chunk;
      ASSERT_EQ(got, expected[done - 1]) << done << " tokens";
    }
    ASSERT_EQ(row.values, expected_row.values);
  }
}

TEST_P(Decoders, HaveTheSameBitsAmongOtherRows) {
  const SmallDecoder& sizes = GetParam();
  const Decoder decoder(random_weights(sizes));
  constexpr std::size_t rows = 17, capacity = 130, steps = 3;
  std::vector<Ids> ids;
  std::vector<std::size_t> lengths;
  for (std::size_t row = 0; row < rows; ++row) {
    lengths.push_back(1 + row * 7);
    ids.push_back(random_ids(lengths[row] + steps, sizes.vocabulary, static_cast<unsigned>(row)));
  }
  const auto prompt = [&](std::size_t row) {
    CachedRow made(decoder, capacity);
    append(decoder, {&made}, {part_of(ids[row], 0, lengths[row])}, capacity);
    return made;
  };
  std::vector<std::vector<std::vector<float>>> alone(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    CachedRow cached = prompt(row);
    for (std::size_t step = 0; step < steps; ++step) {
      alone[row].push_back(append(decoder, {&cached}, {{ids[row][lengths[row] + step]}}, capacity).front());
    }
  }
  for (const std::size_t count : {2, 3, 4, 7, 12, 16, 17}) {
    for (const std::size_t threads : {std::size_t{1}, count == 7 ? std::size_t{5} : std::size_t{2}}) {
      std::vector<CachedRow> cached;
      for (std::size_t i = 0; i < count; ++i) cached.push_back(prompt(rows - 1 - i));
      std::vector<CachedRow*> pointers;
      for (CachedRow& row : cached) pointers.push_back(&row);
      for (std::size_t step = 0; step < steps; ++step) {
        std::vector<Ids> next;
        for (std::size_t i = 0; i < count; ++i) next.push_back({ids[rows - 1 - i][lengths[rows - 1 - i] + step]});
        const auto got = append(decoder, pointers, next, capacity, {threads, step % 2 == 0});
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(got[i], alone[rows - 1 - i][step]) << i << " of " << count;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Small, Decoders, testing::ValuesIn(small_decoders()),
                         [](const auto& info) { return info.param.name; });

// Longer than a span of keys, and than a pass: 2,300 tokens.
TEST(Decoder, HasTheSameBitsForLongTexts) {
  const SmallDecoder sizes{.name = "long",
                           .heads = 2,
                           .kv_heads = 1,
                           .head_size = 8,
                           .hidden_size = 16,
                           .intermediate_size = 32,
                           .weights = "int4-32",
                           .rotary_dimensions = 8,
                           .window = 1500};
  const Decoder decoder(random_weights(sizes));
  constexpr std::size_t length = 2300, capacity = 2304;
  const Ids ids = random_ids(length, sizes.vocabulary, 5);
  CachedRow whole(decoder, capacity);
  const std::vector<float> expected = append(decoder, {&whole}, {ids}, capacity).front();
  for (const std::vector<std::size_t>& chunks :
       std::vector<std::vector<std::size_t>>{{2299, 1}, {1024, 1275, 1}, {511, 513, 1276}, {1, 1000, 1000, 299}}) {
    for (const std::size_t threads : {1, 3}) {
      CachedRow row(decoder, capacity);
      std::vector<float> got;
      std::size_t done = 0;
      for (const std::size_t chunk : chunks) {
        got = append(decoder, {&row}, {part_of(ids, done, chunk)}, capacity, {threads}).front();
        done += chunk;
      }
      ASSERT_EQ(got, expected);
      ASSERT_EQ(row.values, whole.values);
    }
  }
}

// Prompts of several rows without a past: those behind a row's tokens are computed, and change nothing of it.
TEST(Decoder, TakesPromptsOfSeveralRows) {
  const SmallDecoder sizes{.name = "prompts"};
  const Decoder decoder(random_weights(sizes));
  constexpr std::size_t capacity = 600;
  const std::vector<Ids> ids{random_ids(550, sizes.vocabulary, 1), random_ids(550, sizes.vocabulary, 2),
                             random_ids(550, sizes.vocabulary, 3)};
  std::vector<CachedRow> rows(3, CachedRow(decoder, capacity));
  const auto got = append(decoder, {&rows[0], &rows[1], &rows[2]}, ids, capacity, {3});
  for (std::size_t row = 0; row < 3; ++row) {
    CachedRow alone(decoder, capacity);
    EXPECT_EQ(append(decoder, {&alone}, {ids[row]}, capacity).front(), got[row]);
    EXPECT_EQ(alone.values, rows[row].values);
  }
}

class Refusals : public testing::Test {
 protected:
  std::string refusal_of(const std::function<void(DecoderBatch&)>& change) {
    std::vector<std::int64_t> ids{1, 2, 3, 4}, mask{1, 1, 1, 1, 1, 1, 1, 0};
    std::vector<std::vector<float>> values(4, std::vector<float>(2 * 2 * 16 * 8));
    std::vector<float> logits(2 * 75);
    ids_ = &ids;
    mask_ = &mask;
    DecoderBatch batch{.batch = 2,
                       .sequence = 2,
                       .total = 4,
                       .input_ids = ids.data(),
                       .attention_mask = mask.data(),
                       .past_length = 8,
                       .present_length = 8,
                       .layers = {{values[0].data(), values[1].data(), values[0].data(), values[1].data()},
                                  {values[2].data(), values[3].data(), values[2].data(), values[3].data()}},
                       .logits = logits.data()};
    change(batch);
    try {
      decoder_.run(batch, 1, on_threads, nullptr);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "";
  }

  Decoder decoder_{random_weights({.name = "refusals", .max_positions = 6})};
  std::vector<std::int64_t>*ids_ = nullptr, *mask_ = nullptr;
};

TEST_F(Refusals, NameWhatDoesNotFit) {
  EXPECT_EQ(refusal_of([](DecoderBatch&) {}), "");
  EXPECT_THAT(refusal_of([&](DecoderBatch&) { (*ids_)[3] = 75; }), HasSubstr("input_ids has 75; accepted: 0 to 74"));
  EXPECT_THAT(refusal_of([&](DecoderBatch&) { (*ids_)[0] = -1; }), HasSubstr("input_ids has -1"));
  EXPECT_THAT(refusal_of([&](DecoderBatch&) { (*mask_)[2] = 2; }),
              HasSubstr("attention_mask has 2; accepted: 0 and 1"));
  EXPECT_THAT(refusal_of([&](DecoderBatch&) { mask_->assign(8, 0); }),
              HasSubstr("attention_mask has 0 tokens in row 0"));
  EXPECT_THAT(refusal_of([](DecoderBatch& batch) { batch.total = 1; }), HasSubstr("has 1 columns for 2 tokens"));
  EXPECT_THAT(refusal_of([](DecoderBatch& batch) { batch.past_length = 1; }),
              HasSubstr("2 tokens before this run, but past_key_values 1"));
  EXPECT_THAT(refusal_of([](DecoderBatch& batch) { batch.present_length = 3; }), HasSubstr("no room"));
  EXPECT_THAT(refusal_of([](DecoderBatch& batch) { batch.sequence = 0; }), HasSubstr("has no tokens"));
  EXPECT_THAT(refusal_of([&](DecoderBatch& batch) {
                mask_->assign(16, 1);
                batch.attention_mask = mask_->data();
                batch.total = 7;
              }),
              HasSubstr("a row has 7 tokens; accepted: up to 6"));
}

TEST(Decoder, TakesBatchesWithoutRows) {
  const Decoder decoder(random_weights({.name = "empty"}));
  const DecoderBatch batch{.batch = 0, .sequence = 1, .total = 1, .present_length = 1, .layers = {}};
  decoder.run(batch, 2, on_threads, nullptr);
}

TEST(Decoder, StopsWhenAsked) {
  const Decoder decoder(random_weights({.name = "stopped"}));
  CachedRow row(decoder, 4);
  const std::vector<std::int64_t> ids{1}, mask{1};
  std::vector<float> logits(75);
  DecoderBatch batch{.batch = 1,
                     .sequence = 1,
                     .total = 1,
                     .input_ids = ids.data(),
                     .attention_mask = mask.data(),
                     .past_length = 4,
                     .present_length = 4,
                     .logits = logits.data()};
  for (std::size_t i = 0; i < row.values.size(); i += 2) {
    batch.layers.push_back(
        {row.values[i].data(), row.values[i + 1].data(), row.values[i].data(), row.values[i + 1].data()});
  }
  const std::atomic<bool> stopped = true;
  EXPECT_THROW(decoder.run(batch, 2, on_threads, &stopped), Stopped);
  decoder.run(batch, 2, on_threads, nullptr);
}

}  // namespace
}  // namespace gpux_cpu::decoder
