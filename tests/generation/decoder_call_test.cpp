// What goes to the keys and values of a decoder in a worker process, and what a worker may answer.
#include "generation/decoder_call.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::generation {
namespace {

Tensor numbers(const std::vector<std::int64_t>& values) {
  return Tensor::of<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

Tensor logits_of(Shape shape) {
  return Tensor::allocate(ElementType::float32, std::move(shape));
}

TEST(DecoderCall, ArrivesAsItWasSent) {
  DecoderNames other;
  other.past_key = "past.%d.k";
  other.logits = "scores";
  const DecoderCall call{
      .number = 77,
      .changes = {OpenCaches{20, 64, other}, ReserveCaches{256, {3, 0, 17}}, CompareRows{32000, 2048},
                  CopyCaches{1, 2, 30}, ExchangeCaches{0, 7, 3, 9}, ReleaseCaches{4, 5, 6}},
      .first_slot = 2,
      .past = {10, 11},
      .tokens = {5, 4'000'000'000},
  };
  EXPECT_EQ(decoder_call_from(values_of(call)), call);
  EXPECT_EQ(decoder_call_from(values_of(DecoderCall())), DecoderCall());
  const DecoderCall prompt{.number = 0, .changes = {}, .first_slot = 0, .past = {0}, .tokens = {1, 2, 3}};
  EXPECT_EQ(decoder_call_from(values_of(prompt)), prompt);
  DecoderCall ahead = call;
  ahead.wanted = LogitRows::all;
  EXPECT_EQ(decoder_call_from(values_of(ahead)), ahead);
  EXPECT_NE(decoder_call_from(values_of(ahead)), call);
}

TEST(DecoderCall, IsRefusedWhereItMakesNoSense) {
  const Tensor none = Tensor::of_strings({0}, {});
  const std::vector<NamedValues> calls{
      {},
      {{"changes", numbers({})}},
      {{"changes", numbers({9})}, {"names", none}, {"rows", numbers({0, 0, 0})}, {"tokens", numbers({})}},
      {{"changes", numbers({2, 1})}, {"names", none}, {"rows", numbers({0, 0, 0})}, {"tokens", numbers({})}},
      {{"changes", numbers({2, 1, -1, 4})}, {"names", none}, {"rows", numbers({0, 0, 0})}, {"tokens", numbers({})}},
      {{"changes", numbers({0, 4, 64})}, {"names", none}, {"rows", numbers({0, 0, 0})}, {"tokens", numbers({})}},
      {{"changes", numbers({1, 4, 1'000'000})}, {"names", none}, {"rows", numbers({0, 0, 0})}, {"tokens", numbers({})}},
      {{"changes", numbers({})}, {"names", none}, {"rows", numbers({})}, {"tokens", numbers({})}},
      {{"changes", numbers({})}, {"names", none}, {"rows", numbers({0, 0, 0, 1, 1})}, {"tokens", numbers({1, 2, 3})}},
      {{"changes", numbers({})}, {"names", none}, {"rows", numbers({0, 0, 0, 1})}, {"tokens", numbers({})}},
      {{"changes", numbers({})}, {"names", none}, {"rows", numbers({0, 0, 0})}, {"tokens", numbers({1})}},
      {{"changes", numbers({})}, {"names", none}, {"rows", numbers({0, 0, 0, 1})}, {"tokens", numbers({-1})}},
      {{"changes", numbers({})}, {"names", none}, {"rows", numbers({0, 0, 2, 1})}, {"tokens", numbers({1})}},
  };
  for (const NamedValues& call : calls) EXPECT_THROW((void)decoder_call_from(call), Error);
}

TEST(DecoderAnswer, ArrivesAsItWasSent) {
  const DecoderAnswer answer{.can_batch = true, .note = "on the device", .logits = logits_of({2, 5})};
  const DecoderAnswer read = decoder_answer_from(values_of(answer), 2, 5);
  EXPECT_TRUE(read.can_batch);
  EXPECT_EQ(read.note, "on the device");
  EXPECT_EQ(read.logits.shape(), (Shape{2, 5}));
  EXPECT_EQ(decoder_answer_from(values_of(answer), 2, 0).logits.shape(), (Shape{2, 5}));
  const DecoderAnswer nothing{.can_batch = false, .note = {}, .logits = logits_of({0, 0})};
  EXPECT_FALSE(decoder_answer_from(values_of(nothing), 0, 5).can_batch);
}

// A worker runs code of others: what it answers decides over no memory of this process.
TEST(DecoderAnswer, IsRefusedWhereItIsNotOfTheRun) {
  struct Case {
    Shape shape;
    std::size_t rows, vocabulary;
  };

  const std::vector<Case> cases{{{1, 5}, 2, 5}, {{3, 5}, 2, 5}, {{2, 4}, 2, 5},   {{2, 6}, 2, 5},
                                {{2, 0}, 2, 0}, {{10}, 2, 5},   {{2, 5, 1}, 2, 5}};
  for (const Case& one : cases) {
    const DecoderAnswer answer{.can_batch = true, .note = {}, .logits = logits_of(one.shape)};
    EXPECT_THROW((void)decoder_answer_from(values_of(answer), one.rows, one.vocabulary), Error);
  }
  NamedValues two_notes = values_of(DecoderAnswer{.can_batch = true, .note = {}, .logits = logits_of({1, 5})});
  two_notes.back().second = Tensor::of_strings({2}, {"a", "b"});
  EXPECT_THROW((void)decoder_answer_from(two_notes, 1, 5), Error);
  EXPECT_THROW((void)decoder_answer_from({}, 1, 5), Error);
}

TEST(DecoderAnswer, HasAShortNote) {
  const DecoderAnswer answer{.can_batch = true, .note = std::string(100'000, 'x'), .logits = logits_of({1, 5})};
  EXPECT_LE(decoder_answer_from(values_of(answer), 1, 5).note.size(), 1024U);
}

}  // namespace
}  // namespace gpux::generation
