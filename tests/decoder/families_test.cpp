// Tiny decoders of each family, as gpux imports them: the decoder provider takes them as a whole, and generates the
// tokens of transformers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
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

/// A home folder for what loads keep.
class Home {
 public:
  Home() {
    if (const char* before = ::getenv("GPUX_HOME")) before_ = before;
    ::setenv("GPUX_HOME", folder_.path().c_str(), 1);
  }

  ~Home() { before_.empty() ? ::unsetenv("GPUX_HOME") : ::setenv("GPUX_HOME", before_.c_str(), 1); }

  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  [[nodiscard]] const fs::path& path() const { return folder_.path(); }

 private:
  test::TemporaryFolder folder_;
  std::string before_;
};

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

  // Of the tokens of a prompt, but for the first one.
  static std::vector<float> log_probabilities(const Generator& one) {
    GenerationSettings settings;
    settings.temperature = 0;
    settings.max_tokens = 1;
    settings.prompt_log_probabilities = 0;
    std::string prompt;
    for (int i = 1; i <= 60; ++i) prompt += "w" + std::to_string(i * 7 % 40 + 1) + " ";
    const Completion completion = one.generate(prompt, settings);
    std::vector<float> all;
    for (std::size_t i = 1; i < completion.prompt_scores.size(); ++i) {
      all.push_back(completion.prompt_scores[i].chosen.log_probability);
    }
    EXPECT_GE(all.size(), 59U);
    return all;
  }

  const Home home_;
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

// A quarter of the memory and the scales: 2 bytes for 16 or 32. What is rounded changes probabilities a little.
TEST_P(TakenDecoders, HaveThemInInt8WhereThatIsAskedFor) {
  const Generator whole = generator(), coded = generator({}, {.cache_precision = CachePrecision::int8});
  EXPECT_EQ(coded.verdict().active, whole.verdict().active);
  const std::uint64_t needed = coded.memory_needed(100), all = whole.memory_needed(100);
  // Heads of 24 and of 8 elements have no whole blocks of 16.
  if (GetParam() == left_to_the_cpu || GetParam() == "gpt2") {
    EXPECT_EQ(needed, all);
    EXPECT_THAT(coded.verdict().notes,
                testing::Contains(testing::StartsWith("keys and values are not stored in int8: ")));
    return;
  }
  EXPECT_THAT(coded.verdict().notes, testing::Contains("keys and values are stored in int8"));
  EXPECT_THAT(needed * 32, testing::AnyOf(all * 9, all * 17 / 2)) << needed << " of " << all;
  const std::vector<float> exact = log_probabilities(whole), near = log_probabilities(coded);
  ASSERT_EQ(near.size(), exact.size());
  EXPECT_NE(near, exact);
  float sum = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(near[i], exact[i], 0.3F) << i;
    sum += std::abs(near[i] - exact[i]);
  }
  EXPECT_LT(sum / static_cast<float>(exact.size()), 0.05F);
}

// What was measured for the files decides, once.
TEST(Int8Caches, AreRefusedWhereTheyChangePredictions) {
  const test::TemporaryFolder folder;
  const Home home;
  const fs::path made = folder.path() / "made", kept = home.path() / "cache-agreement";
  importer::import_model(references / "qwen3", made, {});
  const auto load = [&](CachePrecision precision) {
    return Generator(made.string(), {.provider = "decoder"}, {.cache_precision = precision});
  };
  (void)load(CachePrecision::float16);
  EXPECT_FALSE(fs::exists(kept));
  (void)load(CachePrecision::int8);
  ASSERT_TRUE(fs::exists(kept));
  const fs::path file = fs::directory_iterator(kept)->path();
  json agreement = json::parse(read_file(file));
  EXPECT_GT(agreement.at("positions"), 100);
  const double original = agreement.at("original_perplexity"), coded = agreement.at("perplexity");
  EXPECT_NEAR(coded / original, 1, 0.02);
  EXPECT_NE(coded, original);
  agreement["perplexity"] = 1.2 * original;
  write_file_atomically(file, agreement.dump());
  EXPECT_THROW((void)load(CachePrecision::int8), Error);
  EXPECT_NO_THROW((void)load(CachePrecision::as_written));
  agreement["perplexity"] = original;
  write_file_atomically(file, agreement.dump());
  EXPECT_NO_THROW((void)load(CachePrecision::int8));
  EXPECT_EQ(json::parse(read_file(file)), agreement);  // it was not measured again
}

TEST_P(TakenDecoders, AreTakenWithWeightsInBlocks) {
  const Generator one = generator(onnx::BlockFormat{.bits = 8, .block_size = 32});
  if (GetParam() != left_to_the_cpu) {
    EXPECT_THAT(one.verdict().active, testing::ElementsAre("decoder")) << reason_of(one.verdict());
  }
}

// Keys that float16 has no numbers for end the text with an error that says so, not with other tokens.
TEST(HalfCaches, SayWhatTheyCannotHold) {
  const test::TemporaryFolder folder;
  fs::copy(references / "qwen3", folder.path() / "source");
  const fs::path weights = folder.path() / "source" / "model.safetensors";
  std::string bytes = read_file(weights);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const json tensors = json::parse(bytes.substr(sizeof header, header));
  for (const auto& [name, tensor] : tensors.items()) {
    if (!name.ends_with("k_norm.weight")) continue;
    ASSERT_EQ(tensor.at("dtype"), "BF16");
    const std::size_t begin = sizeof header + header + tensor.at("data_offsets").at(0).get<std::size_t>();
    const std::size_t end = sizeof header + header + tensor.at("data_offsets").at(1).get<std::size_t>();
    constexpr std::uint16_t million = 0x4974;  // in bfloat16
    for (std::size_t at = begin; at < end; at += sizeof million) {
      std::memcpy(bytes.data() + at, &million, sizeof million);
    }
  }
  write_file_atomically(weights, bytes);
  const fs::path made = folder.path() / "made";
  importer::import_model(folder.path() / "source", made, {.blocks = onnx::BlockFormat{.bits = 8, .block_size = 32}});
  const GenerationSettings settings{.temperature = 0, .max_tokens = 6, .ignores_end = true};
  const Generator whole(made.string(), {.provider = "decoder"}, {.cache_precision = CachePrecision::as_written});
  EXPECT_EQ(whole.generate("w1 w2 w3", settings).tokens.size(), 6U);
  const Generator halves(made.string(), {.provider = "decoder"});
  try {
    (void)halves.generate("w1 w2 w3", settings);
    ADD_FAILURE() << "the keys fit";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), testing::HasSubstr("float16, which has numbers up to 65504: try cache_precision"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, TakenDecoders, testing::ValuesIn(families()), [](const auto& name) {
  std::string text = name.param;
  std::ranges::replace(text, '-', '_');
  return text;
});

}  // namespace
}  // namespace gpux
