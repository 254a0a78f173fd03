// The keys and values of a decoder in a worker process, without the process.
#include "generation/decoder_service.h"

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
