// Tiny GGUF files, as llama.cpp or transformers computes them: scripts/references/gguf-references --write-tests.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "importer/import_model.h"
#include "text/tokenizer.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const fs::path references = GPUX_SOURCE_DIR "/tests/importer/gguf";

json json_of(const fs::path& file) {
  return json::parse(read_file(file));
}

class GgufModels : public testing::TestWithParam<const char*> {
 protected:
  void expect_logits(const std::string& provider) const;

  void SetUp() override {
    imported_ = import_model(references / (GetParam() + std::string(".gguf")), made_);
    answers_ = json_of(references / (GetParam() + std::string(".json")));
  }

  test::TemporaryFolder folder_;
  fs::path made_ = folder_.path() / "made";
  ImportedModel imported_;
  json answers_;
};

TEST_P(GgufModels, HaveTheTokensOfTheFile) {
  const auto tokenizer = text::Tokenizer::from_file(made_ / "tokenizer.json");
  for (const json& row : answers_.at("texts")) {
    const std::string text = row.at("text");
    const text::Encoding encoding = tokenizer.encode(text);
    EXPECT_THAT(encoding.ids(), testing::ElementsAreArray(row.at("tokens").get<std::vector<std::uint32_t>>())) << text;
  }
}

NamedValues inputs_of(const std::vector<std::int64_t>& ids, const fs::path& made) {
  const json config = json_of(made / "config.json");
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const std::vector<std::int64_t> mask(ids.size(), 1);
  NamedValues inputs{{"input_ids", Tensor::of<std::int64_t>({1, tokens}, ids)},
                     {"attention_mask", Tensor::of<std::int64_t>({1, tokens}, mask)}};
  const std::int64_t heads = config.at("num_key_value_heads"), size = config.at("head_dim");
  for (std::int64_t i = 0; i < config.at("num_hidden_layers"); ++i) {
    for (const char* part : {"key", "value"}) {
      inputs.emplace_back("past_key_values." + std::to_string(i) + "." + part,
                          Tensor::allocate(ElementType::float32, {1, heads, 0, size}));
    }
  }
  return inputs;
}

void GgufModels::expect_logits(const std::string& provider) const {
  const Runtime runtime(made_ / "model.onnx", {.provider = provider});
  // The graph rotates its heads of 12 elements, not GroupQueryAttention.
  const bool is_left = std::string(GetParam()) == "phi4-mini-q8_0";
  EXPECT_THAT(runtime.verdict().active, testing::ElementsAre(is_left ? "cpu" : provider));
  const auto ids = answers_.at("ids").get<std::vector<std::int64_t>>();
  const auto positions = answers_.at("positions").get<std::vector<std::size_t>>();
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::vector<std::int64_t> prefix(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(positions[i]) + 1);
    const NamedValues outputs = runtime.infer(inputs_of(prefix, made_));
    const auto expected = answers_.at("logits")[i].get<std::vector<double>>();
    std::vector<double> logits;
    for (const auto& [name, value] : outputs) {
      if (name != "logits") continue;
      const auto found = value.tensor()->as<float>();
      logits.assign(found.begin(), found.end());
    }
    ASSERT_EQ(logits.size(), expected.size());
    double product = 0, ours = 0, theirs = 0;
    for (std::size_t k = 0; k < logits.size(); ++k) {
      product += logits[k] * expected[k];
      ours += logits[k] * logits[k];
      theirs += expected[k] * expected[k];
    }
    // The rows are rounded to 8 bits.
    EXPECT_GT(product / std::sqrt(ours * theirs), 0.998) << "position " << positions[i];
    const auto best = static_cast<std::size_t>(std::ranges::max_element(expected) - expected.begin());
    const double spread = std::sqrt(ours / static_cast<double>(logits.size()));
    EXPECT_GT(logits[best], *std::ranges::max_element(logits) - 0.1 * spread) << "position " << positions[i];
  }
}

TEST_P(GgufModels, HaveTheLogitsOfTheReference) {
  expect_logits("cpu");
}

// Also files whose tensors have blocks of several sizes, with and without minimums.
TEST_P(GgufModels, AreTakenWholeByTheDecoderProvider) {
  expect_logits("decoder");
}

INSTANTIATE_TEST_SUITE_P(All, GgufModels,
                         testing::Values("llama-q4_0", "qwen2-q8_0", "qwen3-mixed", "gemma3-f16", "gemma2-q8_0",
                                         "gpt2-q8_0", "granite-q4_0", "olmo2-q4_0", "phi3-q4_0", "phi4-mini-q8_0",
                                         "smollm3-q4_0"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(GgufImport, SaysWhatBecameBlocks) {
  const test::TemporaryFolder folder;
  const ImportedModel plain = import_model(references / "llama-q4_0.gguf", folder.path() / "plain");
  ASSERT_EQ(plain.weights.size(), 1U);
  EXPECT_EQ(plain.weights[0].type, "Q4_0");
  EXPECT_EQ(plain.weights[0].matrices, 16);  // seven of each layer, the words, and the head
  const ImportedModel mixed = import_model(references / "qwen3-mixed.gguf", folder.path() / "mixed");
  EXPECT_GT(mixed.weights.size(), 10U);
  EXPECT_EQ(import_model(references / "gemma3-f16.gguf", folder.path() / "halves").weights.size(), 0U);
}

TEST(GgufImport, TakesTheChatTemplateOfTheFile) {
  const test::TemporaryFolder folder;
  import_model(references / "qwen2-q8_0.gguf", folder.path() / "made");
  EXPECT_THAT(read_file(folder.path() / "made/chat_template.jinja"), HasSubstr("<|im_start|>"));
  const json generation = json_of(folder.path() / "made/generation_config.json");
  EXPECT_FALSE(generation.at("eos_token_id").empty());
}

TEST(GgufImport, GivesLongTextsTheirPositionsWithALongerContext) {
  const test::TemporaryFolder folder;
  const fs::path file = references / "phi4-mini-q8_0.gguf";
  const ImportedModel of_short_texts = import_model(file, folder.path() / "short");
  EXPECT_EQ(of_short_texts.max_tokens, 256U);
  EXPECT_THAT(of_short_texts.notes, testing::ElementsAre(HasSubstr("context_length 512")));
  EXPECT_EQ(json_of(folder.path() / "short/config.json").at("max_position_embeddings"), 256);
  const ImportedModel of_long_texts = import_model(file, folder.path() / "long", {.context_length = 512});
  EXPECT_EQ(of_long_texts.max_tokens, 512U);
  EXPECT_TRUE(of_long_texts.notes.empty());
  EXPECT_EQ(json_of(folder.path() / "long/config.json").at("max_position_embeddings"), 512);
  EXPECT_NE(read_file(folder.path() / "long/model.onnx"), read_file(folder.path() / "short/model.onnx"));
  EXPECT_THROW(import_model(file, folder.path() / "more", {.context_length = 513}), Error);
}

TEST(GgufImport, RefusesToQuantize) {
  const test::TemporaryFolder folder;
  try {
    import_model(references / "llama-q4_0.gguf", folder.path() / "made", {.blocks = onnx::BlockFormat{}});
    FAIL() << "it was quantized";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.message(), HasSubstr("keeps the precision of its weights"));
  }
}

struct ChangedFile {
  const char *name, *from, *to, *message;
};

class ChangedFiles : public testing::TestWithParam<ChangedFile> {};

// Texts of the same length, so that the file stays whole.
TEST_P(ChangedFiles, AreRefusedByName) {
  const auto& [name, from, to, message] = GetParam();
  std::string bytes = read_file(references / "llama-q4_0.gguf");
  const std::size_t at = bytes.find(from);
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(std::string_view(from).size(), std::string_view(to).size());
  bytes.replace(at, std::string_view(to).size(), to);
  const test::TemporaryFolder folder;
  try {
    import_model(folder.write("changed.gguf", bytes), folder.path() / "made");
    FAIL() << "it was imported";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_model);
    EXPECT_THAT(error.message(), HasSubstr(message));
    EXPECT_THAT(error.message(), HasSubstr("changed.gguf"));
  }
  EXPECT_FALSE(fs::exists(folder.path() / "made"));
}

INSTANTIATE_TEST_SUITE_P(
    All, ChangedFiles,
    testing::Values(ChangedFile{"architecture", "llama", "mamba", "general.architecture is 'mamba'; accepted: llama"},
                    ChangedFile{"tensor", "blk.1.ffn_up", "blk.1.ffn_zz", "which no llama model of gpux has"},
                    ChangedFile{"layer", "blk.1.ffn_up", "blk.7.ffn_up", "blk."},
                    ChangedFile{"no_tokens", "tokenizer.ggml.tokens", "tokenizer.ggml.tokenz", "it has no tokenizer"},
                    ChangedFile{"no_layers", "llama.block_count", "llama.block_cound",
                                "the file has no llama.block_count"},
                    ChangedFile{"unknown_setting", "llama.rope.freq_base", "llama.rope.freq_basf",
                                "'llama.rope.freq_basf' is not supported: it may change what the model computes"},
                    ChangedFile{"tokenizer_model", "tokenizer.ggml.model\x08", "tokenizer.ggml.modem\x08",
                                "accepted: gpt2, llama"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gpux::importer
