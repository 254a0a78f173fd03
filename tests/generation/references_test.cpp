// Tiny decoders of each family, as transformers computes them: scripts/references/generation-references --write-tests.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "gpux/generator.h"
#include "importer/import_model.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const fs::path references = GPUX_SOURCE_DIR "/tests/generation/references";

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(references)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class Decoders : public testing::TestWithParam<std::string> {
 protected:
  fs::path import() {
    importer::DecoderImport options;
    if (GetParam() == "phi3-long") options.context_length = 640;
    importer::import_model(references / GetParam(), folder_.path() / "made", options);
    return folder_.path() / "made";
  }

  test::TemporaryFolder folder_;
};

GenerationSettings greedy(std::size_t tokens) {
  GenerationSettings settings;
  settings.temperature = 0;
  settings.max_tokens = tokens;
  settings.ignores_end = true;
  return settings;
}

TEST_P(Decoders, GenerateTheTokensOfTransformers) {
  const Generator generator(import().string());
  for (const json& row : json::parse(read_file(references / GetParam() / "answers.json"))) {
    const auto expected = row.at("tokens").get<std::vector<std::uint32_t>>();
    const Completion completion = generator.generate(row.at("prompt").get<std::string>(), greedy(expected.size()));
    EXPECT_EQ(completion.tokens, expected) << row.at("prompt");
    EXPECT_EQ(completion.prompt_tokens, row.at("ids").size());
    EXPECT_EQ(completion.reason, FinishReason::length);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Decoders, testing::ValuesIn(families()), [](const auto& name) {
  std::string text = name.param;
  std::ranges::replace(text, '-', '_');
  return text;
});

class OneDecoder : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryFolder;
    importer::import_model(references / "qwen3", folder_->path() / "made");
    generator_ = new Generator((folder_->path() / "made").string());
  }

  static void TearDownTestSuite() {
    delete generator_;
    delete folder_;
  }

  static Error failure(std::string_view prompt, const GenerationSettings& settings) {
    try {
      (void)generator_->generate(prompt, settings);
    } catch (const Error& error) {
      return error;
    }
    return {ErrorCode::internal, "no error"};
  }

  static inline test::TemporaryFolder* folder_ = nullptr;
  static inline Generator* generator_ = nullptr;
};

TEST_F(OneDecoder, GivesTheTextInPieces) {
  std::vector<std::string> pieces;
  const Completion completion = generator_->generate("w1 w2", greedy(8), [&](std::string_view piece) {
    pieces.emplace_back(piece);
    return true;
  });
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  EXPECT_EQ(text, completion.text);
  EXPECT_GT(pieces.size(), 1);
}

TEST_F(OneDecoder, StreamsPieces) {
  const Completion whole = generator_->generate("w1 w2", greedy(8));
  GenerationStream stream = generator_->stream("w1 w2", greedy(8));
  EXPECT_THROW((void)stream.completion(), Error);
  std::string text;
  std::vector<std::uint32_t> tokens;
  for (const GeneratedPiece& piece : stream) {
    text += piece.text;
    tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
  }
  EXPECT_EQ(text, whole.text);
  EXPECT_EQ(tokens, whole.tokens);
  EXPECT_EQ(stream.completion().text, whole.text);
  EXPECT_FALSE(stream.next().has_value());
}

TEST_F(OneDecoder, StreamsMayBeLeft) {
  GenerationStream stream = generator_->stream("w1 w2", greedy(600));
  EXPECT_TRUE(stream.next().has_value());
  stream = generator_->stream("w1 w2", greedy(600));
  stream.cancel();
  while (stream.next()) {
  }
  const Completion& completion = stream.completion();
  // A fast machine may have come to the end.
  EXPECT_TRUE(completion.reason == FinishReason::cancelled || completion.tokens.size() == 600);
}

TEST_F(OneDecoder, EndsWhereTheReceiverWantsNoMore) {
  const Completion completion = generator_->generate("w1 w2", greedy(8), [](std::string_view) { return false; });
  EXPECT_EQ(completion.reason, FinishReason::cancelled);
  EXPECT_EQ(completion.tokens.size(), 1);
}

TEST_F(OneDecoder, EndsAtAStopTextAndAStopToken) {
  const Completion whole = generator_->generate("w1 w2", greedy(8));
  GenerationSettings settings = greedy(8);
  settings.stop_tokens = {whole.tokens[3]};
  const Completion by_token = generator_->generate("w1 w2", settings);
  EXPECT_EQ(by_token.reason, FinishReason::stop);
  EXPECT_LE(by_token.tokens.size(), 3);

  settings = greedy(8);
  settings.stop = {whole.text.substr(whole.text.size() - 3)};
  const Completion by_text = generator_->generate("w1 w2", settings);
  EXPECT_EQ(by_text.reason, FinishReason::stop);
  EXPECT_EQ(by_text.text, whole.text.substr(0, whole.text.find(settings.stop.front())));
}

TEST_F(OneDecoder, GivesTheSameTextForTheSameSeed) {
  GenerationSettings settings = greedy(12);
  settings.temperature = 1.5F;
  settings.seed = 7;
  const Completion first = generator_->generate("w1 w2", settings);
  EXPECT_EQ(first.tokens, generator_->generate("w1 w2", settings).tokens);
  settings.seed = 8;
  EXPECT_NE(first.tokens, generator_->generate("w1 w2", settings).tokens);
}

TEST_F(OneDecoder, FillsTheContextAndNoMore) {
  GenerationSettings settings = greedy(0);
  std::string prompt;
  for (std::size_t i = 0; i + 6 < generator_->context_length(); ++i) prompt += "w5 ";
  const Completion completion = generator_->generate(prompt, settings);
  EXPECT_EQ(completion.prompt_tokens + completion.tokens.size(), generator_->context_length());
  EXPECT_EQ(completion.reason, FinishReason::length);
}

TEST_F(OneDecoder, RefusesWhatDoesNotFit) {
  std::string prompt;
  for (std::size_t i = 0; i < generator_->context_length(); ++i) prompt += "w5 ";
  EXPECT_THAT(failure(prompt, {}).message(), HasSubstr("fewer than the 640 of the context"));
  EXPECT_EQ(failure(prompt, {}).code(), ErrorCode::invalid_input);
  EXPECT_THAT(failure("w1", greedy(639)).message(), HasSubstr("max_tokens is 639; accepted: up to 638"));
  EXPECT_EQ(failure("\xff", {}).code(), ErrorCode::invalid_input);
  GenerationSettings settings = greedy(2);
  settings.stop_tokens = {204};
  EXPECT_THAT(failure("w1", settings).message(), HasSubstr("stop_tokens has token 204; accepted: 0 to 203"));
  settings.stop_tokens.clear();
  settings.logit_bias = {{9999, 1}};
  EXPECT_THAT(failure("w1", settings).message(), HasSubstr("logit_bias has token 9999"));
}

TEST_F(OneDecoder, RefusesATokenThatTheModelHasNoEmbeddingFor) {
  const std::filesystem::path folder = folder_->path() / "more-tokens";
  std::filesystem::copy(folder_->path() / "made", folder, std::filesystem::copy_options::recursive);
  folder_->write("more-tokens/tokenizer_config.json",
                 R"({"added_tokens_decoder": {"204": {"content": "<more>", "special": true}}})");
  const Generator generator(folder.string());
  try {
    (void)generator.generate("w1 <more>", greedy(2));
    ADD_FAILURE() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_THAT(error.message(), HasSubstr("the text has the token 204 '<more>'; accepted: 0 to 203"));
  }
  EXPECT_EQ(generator.generate("w1", greedy(2)).tokens.size(), 2U);
}

}  // namespace
}  // namespace gpux
