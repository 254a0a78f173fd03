// Tiny decoders of each family, as gpux imports them: the decoder provider takes them as a whole, and generates the
// tokens of transformers.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/generator.h"
#include "importer/import_model.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path references = GPUX_SOURCE_DIR "/tests/generation/references";
// The graph rotates its heads of 24 elements, not GroupQueryAttention.
constexpr const char* left_to_the_cpu = "phi3-narrow";

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(references)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class TakenDecoders : public testing::TestWithParam<std::string> {
 protected:
  Generator generator(const std::optional<onnx::BlockFormat>& blocks = {}, const GeneratorOptions& settings = {}) {
    importer::DecoderImport options{.blocks = blocks};
    if (GetParam() == "phi3-long") options.context_length = 640;
    const fs::path made = folder_.path() / "made";
    if (!fs::exists(made)) importer::import_model(references / GetParam(), made, options);
    return Generator(made.string(), {.provider = "decoder"}, settings);
  }

  static std::string reason_of(const Verdict& verdict) {
    for (const ProviderAttempt& attempt : verdict.tried) {
      if (attempt.id == "decoder") return attempt.reason;
    }
    return {};
  }

  static void expect_tokens_of_transformers(const Generator& one) {
    for (const json& row : json::parse(read_file(references / GetParam() / "answers.json"))) {
      const auto expected = row.at("tokens").get<std::vector<std::uint32_t>>();
      GenerationSettings settings;
      settings.temperature = 0;
      settings.max_tokens = expected.size();
      settings.ignores_end = true;
      const Completion completion = one.generate(row.at("prompt").get<std::string>(), settings);
      EXPECT_EQ(completion.tokens, expected) << row.at("prompt");
    }
  }

  test::TemporaryFolder folder_;
};

TEST_P(TakenDecoders, GenerateTheTokensOfTransformers) {
  const Generator one = generator();
  if (GetParam() == left_to_the_cpu) {
    EXPECT_THAT(one.verdict().active, testing::ElementsAre("cpu"));
    EXPECT_THAT(reason_of(one.verdict()), testing::HasSubstr("is not understood"));
  } else {
    EXPECT_THAT(one.verdict().active, testing::ElementsAre("decoder")) << reason_of(one.verdict());
  }
  expect_tokens_of_transformers(one);
}

TEST_P(TakenDecoders, GenerateThemWithKeysAndValuesInHalfTheMemory) {
  const Generator whole = generator(), halves = generator({}, {.cache_precision = CachePrecision::float16});
  EXPECT_EQ(halves.verdict().active, whole.verdict().active);
  EXPECT_EQ(halves.memory_needed(100) * 2, whole.memory_needed(100));
  expect_tokens_of_transformers(halves);
}

TEST_P(TakenDecoders, HaveThemInHalfTheMemoryWhereWeightsAreInBlocks) {
  const onnx::BlockFormat blocks{.bits = 8, .block_size = 32};
  const Generator halves = generator(blocks),
                  whole = generator(blocks, {.cache_precision = CachePrecision::as_written});
  const bool is_taken = GetParam() != left_to_the_cpu;
  EXPECT_EQ(halves.memory_needed(100) * (is_taken ? 2 : 1), whole.memory_needed(100));
}

TEST_P(TakenDecoders, AreTakenWithWeightsInBlocks) {
  const Generator one = generator(onnx::BlockFormat{.bits = 8, .block_size = 32});
  if (GetParam() != left_to_the_cpu) {
    EXPECT_THAT(one.verdict().active, testing::ElementsAre("decoder")) << reason_of(one.verdict());
  }
}

INSTANTIATE_TEST_SUITE_P(All, TakenDecoders, testing::ValuesIn(families()), [](const auto& name) {
  std::string text = name.param;
  std::ranges::replace(text, '-', '_');
  return text;
});

}  // namespace
}  // namespace gpux
