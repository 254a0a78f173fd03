// The keys and values of a decoder in a worker process, without the process.
#include "generation/decoder_service.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "generation/decoder_call.h"
#include "generation/decoder_signature.h"
#include "gpux/error.h"
#include "importer/import_model.h"

namespace gpux::generation {
namespace {

class DecoderServices : public testing::Test {
 protected:
  void SetUp() override {
    importer::import_model(GPUX_SOURCE_DIR "/tests/generation/references/qwen3", folder_.path() / "made");
    runtime_.emplace(folder_.path() / "made/model.onnx");
    service_ = make_decoder_service(*runtime_);
  }

  DecoderAnswer ask(const DecoderCall& call) {
    return decoder_answer_from(service_->call(values_of(call)), call.past.size(), 0);
  }

  [[nodiscard]] DecoderCall opening(std::uint64_t number) const {
    const DecoderSignature signature = require_decoder(runtime_->info());
    return {.number = number,
            .changes = {OpenCaches{4, signature.cache.head_size, signature.names}, ReserveCaches{16, {0, 0, 0, 0}}},
            .first_slot = 0,
            .past = {0},
            .tokens = {5, 6, 7}};
  }

  ErrorCode failure_of(const DecoderCall& call) {
    try {
      (void)ask(call);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  }

  test::TemporaryFolder folder_;
  std::optional<Runtime> runtime_;
  std::unique_ptr<runtime::WorkerService> service_;
};

TEST_F(DecoderServices, ContinuesWhatWasThere) {
  const DecoderAnswer whole =
      ask({.number = 9, .changes = opening(9).changes, .first_slot = 1, .past = {0}, .tokens = {5, 6, 7, 8}});
  (void)ask(opening(1));
  const DecoderAnswer next =
      ask({.number = 2, .changes = {ExchangeCaches{0, 3, 1, 0}}, .first_slot = 1, .past = {3}, .tokens = {8}});
  ASSERT_EQ(next.logits.shape(), whole.logits.shape());
  for (std::size_t i = 0; i < next.logits.as<float>().size(); ++i) {
    ASSERT_NEAR(next.logits.as<float>()[i], whole.logits.as<float>()[i], 1e-4F) << i;
  }
}

TEST_F(DecoderServices, CopiesTokensOutAndIn) {
  const std::size_t bytes = 2 * require_decoder(runtime_->info()).cache.bytes_per_token();
  (void)ask(opening(1));
  const DecoderAnswer read = decoder_answer_from(
      service_->call(values_of(DecoderCall{.number = 2, .read = SlotTokens{.slot = 0, .first = 1, .tokens = 2}})), 0, 0,
      bytes);
  EXPECT_TRUE(read.can_copy_tokens);
  // What follows in another slot is what would follow in this one.
  const DecoderAnswer here = ask({.number = 3, .changes = {CopyCaches{0, 1, 1}}, .past = {3}, .tokens = {8}});
  DecoderCall written{.number = 4, .first_slot = 1, .past = {3}, .tokens = {8}};
  written.written = SlotTokens{.slot = 1, .first = 1, .tokens = 2};
  written.written_rows = {read.rows.bytes().begin(), read.rows.bytes().end()};
  const DecoderAnswer there = ask(written);
  EXPECT_TRUE(std::ranges::equal(here.logits.bytes(), there.logits.bytes()));
}

TEST_F(DecoderServices, RefuseCopiesBeyondWhatTheyHave) {
  (void)ask(opening(1));
  const std::size_t bytes = require_decoder(runtime_->info()).cache.bytes_per_token();
  std::uint64_t number = 1;
  for (const SlotTokens& tokens : {SlotTokens{4, 0, 1}, SlotTokens{0, 16, 1}, SlotTokens{0, 0, 17}}) {
    EXPECT_EQ(failure_of({.number = ++number, .read = tokens}), ErrorCode::internal);
    DecoderCall written{.number = ++number, .written = tokens};
    written.written_rows.resize(tokens.tokens * bytes);
    EXPECT_EQ(failure_of(written), ErrorCode::internal);
  }
  DecoderCall other{.number = ++number, .written = SlotTokens{0, 0, 1}};
  other.written_rows.resize(bytes - 1);
  EXPECT_EQ(failure_of(other), ErrorCode::internal);
}

// The changes of the call that was lost are missing: what the slots hold is not what the caller takes them for.
TEST_F(DecoderServices, RefusesWhatFollowsALostCall) {
  (void)ask(opening(1));
  const DecoderCall third{.number = 3, .changes = {}, .first_slot = 0, .past = {3}, .tokens = {8}};
  EXPECT_EQ(failure_of(third), ErrorCode::not_found);
  // For good, until it is opened again.
  const DecoderCall fourth{.number = 4, .changes = {}, .first_slot = 0, .past = {3}, .tokens = {8}};
  EXPECT_EQ(failure_of(fourth), ErrorCode::not_found);
  EXPECT_EQ(ask(opening(5)).logits.shape().front(), 1);
  EXPECT_EQ(ask({.number = 6, .changes = {}, .first_slot = 0, .past = {3}, .tokens = {8}}).logits.shape().front(), 1);
}

TEST_F(DecoderServices, RefusesACallBeforeItIsOpened) {
  EXPECT_EQ(failure_of({.number = 1, .changes = {}, .first_slot = 0, .past = {0}, .tokens = {5}}),
            ErrorCode::not_found);
}

}  // namespace
}  // namespace gpux::generation
