// gpux generate, with a tiny decoder: what it says, and how it refuses. The tokens: tests/generation.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace gpux::test {
namespace {

using testing::HasSubstr;

class Generate : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path source = std::filesystem::path(GPUX_SOURCE_DIR) / "tests/generation/references/qwen3";
    const Outcome imported = gpux_.run({"import", source, "-t", "tiny"});
    ASSERT_EQ(imported.code, 0) << imported.err;
    EXPECT_THAT(imported.out, HasSubstr("qwen3, 2 layers, hidden size 32, at most 640 tokens, text generation"));
    EXPECT_THAT(imported.err, HasSubstr("try: gpux generate tiny:latest"));
  }

  Program gpux_;
};

TEST_F(Generate, PrintsTheTextAndSaysWhatRan) {
  const Outcome outcome = gpux_.run({"generate", "tiny", "w1 w2", "--max-tokens", "5"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, testing::MatchesRegex("w[0-9]+( w[0-9]+)*\n"));
  EXPECT_THAT(outcome.err, HasSubstr("ran on cpu"));
  EXPECT_THAT(outcome.err, HasSubstr("tokens after a prompt of 3 ("));
  EXPECT_EQ(gpux_.run({"-q", "generate", "tiny", "-", "--max-tokens", "5"}, {.standard_input = "w1 w2"}).out,
            outcome.out);
}

TEST_F(Generate, GivesOneDocumentWithJson) {
  const Outcome outcome = gpux_.run({"generate", "tiny", "w1 w2", "--max-tokens", "5", "--ignore-eos", "--json"});
  const Json said = Json::parse(outcome.out);
  EXPECT_EQ(said.at("prompt_tokens"), 3);
  EXPECT_EQ(said.at("completion_tokens"), 5);
  EXPECT_EQ(said.at("tokens").size(), 5);
  EXPECT_EQ(said.at("finish_reason"), "length");
}

TEST_F(Generate, RefusesByName) {
  struct Row {
    std::vector<std::string> arguments;
    int code;
    const char* message;
  };

  const std::string add = model("add.onnx");
  for (const Row& row : std::vector<Row>{
           {{"generate", "tiny"}, 2, "PROMPT is required"},
           {{"generate", "none", "a"}, 7, "no model 'none:latest' is stored here"},
           {{"generate", add, "a"}, 4, "'add' generates no text"},
           {{"generate", "tiny", "a", "--temperature", "-1"}, 2, "temperature is -1; accepted: 0 to 100"},
           {{"generate", "tiny", "a", "--max-tokens", "0"}, 2, "--max-tokens"},
           {{"generate", "tiny", "a", "--max-tokens", "640"}, 2, "max_tokens is 640; accepted: up to"},
           {{"generate", "tiny", "\xff"}, 6, "UTF-8"},
           {{"embed", "tiny", "a"}, 4, "the model generates text: 'gpux generate' runs it"},
       }) {
    const Outcome outcome = gpux_.run(row.arguments);
    EXPECT_EQ(outcome.code, row.code) << row.message << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(row.message));
    EXPECT_EQ(outcome.out, "");
  }
}

}  // namespace
}  // namespace gpux::test
