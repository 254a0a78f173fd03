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
  DecoderCall copies = call;
  copies.written = SlotTokens{3, 256, 1};
  copies.written_rows = {std::byte{1}, std::byte{2}};
  copies.read = SlotTokens{1, 0, 7};
  EXPECT_EQ(decoder_call_from(values_of(copies)), copies);
}

TEST(DecoderCall, IsRefusedWhereItMakesNoSense) {
  // Where nothing is copied, six zeros are behind the first three numbers.
  const auto call_of = [](const std::vector<std::int64_t>& changes, std::vector<std::int64_t> rows,
                          const std::vector<std::int64_t>& tokens) -> NamedValues {
    if (rows.size() >= 3) rows.insert(rows.begin() + 3, 6, 0);
    return {{"changes", numbers(changes)},
            {"names", Tensor::of_strings({0}, {})},
            {"rows", numbers(rows)},
            {"tokens", numbers(tokens)},
            {"written", Tensor::allocate(ElementType::uint8, {0})}};
  };
  EXPECT_NO_THROW((void)decoder_call_from(call_of({}, {0, 0, 0}, {})));
  const std::vector<NamedValues> calls{
      {},
      {{"changes", numbers({})}},
      call_of({9}, {0, 0, 0}, {}),
      call_of({2, 1}, {0, 0, 0}, {}),
      call_of({2, 1, -1, 4}, {0, 0, 0}, {}),
      call_of({0, 4, 64}, {0, 0, 0}, {}),
      call_of({1, 4, 1'000'000}, {0, 0, 0}, {}),
      call_of({}, {}, {}),
      call_of({}, {0, 0, 0, 1, 1}, {1, 2, 3}),
      call_of({}, {0, 0, 0, 1}, {}),
      call_of({}, {0, 0, 0}, {1}),
      call_of({}, {0, 0, 0, 1}, {-1}),
      call_of({}, {0, 0, 2, 1}, {1}),
  };
  for (const NamedValues& call : calls) EXPECT_THROW((void)decoder_call_from(call), Error);
  // Rows of no slot, and a slot without rows.
  DecoderCall copies;
  copies.written_rows = {std::byte{1}};
  EXPECT_THROW((void)decoder_call_from(values_of(copies)), Error);
  copies.written_rows.clear();
  copies.written = SlotTokens{0, 0, 1};
  EXPECT_THROW((void)decoder_call_from(values_of(copies)), Error);
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
  DecoderAnswer read{.can_batch = true, .note = {}, .logits = logits_of({0, 0})};
  read.rows = Tensor::allocate(ElementType::uint8, {10});
  EXPECT_EQ(decoder_answer_from(values_of(read), 0, 0, 10).rows.byte_size(), 10U);
  EXPECT_THROW((void)decoder_answer_from(values_of(read), 0, 0, 9), Error);
  EXPECT_THROW((void)decoder_answer_from(values_of(read), 0, 0), Error);
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
