#include "checkpoint/reranker_format.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "checkpoint/pair_score.h"
#include "gpux/error.h"

namespace gpux::checkpoint {
namespace {

using testing::HasSubstr;

const std::string causal = R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"})";
const std::string vocabulary = R"({"model": {"vocab": {"yes": 5, "no": 7}}, "added_tokens": [
  {"id": 9, "content": "<|im_start|>"}, {"id": 10, "content": "<|im_end|>"}]})";
const std::string metadata = "---\nlicense: mit\npipeline_tag: text-ranking\n---\n";
const std::string quotation =
    "prefix = \"Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    "Note\"\n"
    "\"<Instruct>: {instruction}\\n<Query>: {query}\\n<Document>: {doc}\"\n";

class RerankerFormatOf : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("config.json", causal);
    folder_.write("tokenizer.json", vocabulary);
    folder_.write("model.safetensors", "weights");
  }

  template <typename Call>
  static Error error_of(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      return error;
    }
    return {ErrorCode::internal, "nothing was refused"};
  }

  Error refusal() {
    return error_of([&] { (void)RerankerFolder(folder_.path(), RerankerFormat::qwen3); });
  }

  test::TemporaryFolder folder_;
};

TEST_F(RerankerFormatOf, ACardIsTheOneThatItQuotes) {
  EXPECT_EQ(reranker_format_in(folder_.path()), std::nullopt);
  for (const std::string& other : {std::string(), quotation, "pipeline_tag: text-ranking\n" + quotation,
                                   "---\npipeline_tag: text-generation\n---\n" + quotation,
                                   "---\nlicense: mit\n---\npipeline_tag: text-ranking\n" + quotation}) {
    folder_.write("README.md", other);
    EXPECT_EQ(reranker_format_in(folder_.path()), std::nullopt) << other;
  }
  for (const std::string& card : {metadata + quotation, "---\r\npipeline_tag: 'text-ranking'\r\n---\r\n" + quotation}) {
    folder_.write("README.md", card);
    EXPECT_EQ(reranker_format_in(folder_.path()), RerankerFormat::qwen3) << card;
  }
  folder_.write("modules.json", "[]");
  EXPECT_EQ(reranker_format_in(folder_.path()), std::nullopt);
}

TEST_F(RerankerFormatOf, ARerankerWhoseCardQuotesNoneIsRefused) {
  for (const std::string& card : {metadata, metadata + quotation.substr(20), metadata + quotation.substr(0, 150)}) {
    folder_.write("README.md", card);
    const Error error = error_of([&] { (void)reranker_format_in(folder_.path()); });
    EXPECT_EQ(error.code(), ErrorCode::invalid_model) << card;
    EXPECT_THAT(error.message(), HasSubstr("reranker qwen3")) << card;
  }
  folder_.write("config.json", R"({"architectures": ["BertForSequenceClassification"]})");
  EXPECT_EQ(reranker_format_in(folder_.path()), std::nullopt);
}

TEST_F(RerankerFormatOf, AFolderBecomesItsSettings) {
  folder_.write("tokenizer_config.json", R"({"chat_template": "{% for m in messages %}{% endfor %}"})");
  const RerankerFolder made(folder_.path(), RerankerFormat::qwen3);
  EXPECT_EQ(read_file(made.path() / "model.safetensors"), "weights");
  const auto score = read_pair_score(made.path());
  ASSERT_TRUE(score && score->pair_template);
  EXPECT_EQ(score->true_token, 5);
  EXPECT_EQ(score->false_token, 7);
  EXPECT_EQ(
      score->pair_template->prefix("Q", "D"),
      "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
      "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a "
      "web search query, retrieve relevant passages that answer the query\n<Query>: Q\n<Document>: D");
  EXPECT_EQ(score->pair_template->suffix, "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "modules.json"));
}

TEST_F(RerankerFormatOf, AFolderThatItDoesNotFitIsRefusedByName) {
  struct Case {
    const char* file;
    std::string text;
    ErrorCode code;
    const char* words;
  };

  const std::vector<Case> cases{
      {"modules.json", "[]", ErrorCode::usage, "has a modules.json"},
      {"config.json", R"({"architectures": ["Qwen3Model"], "model_type": "qwen3"})", ErrorCode::usage,
       "is no causal language model"},
      {"config.json", R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"})", ErrorCode::invalid_config,
       "model_type is 'qwen2'; accepted"},
      {"tokenizer.json", R"({"model": {"vocab": {"yes": 1}}})", ErrorCode::invalid_model, "'<|im_start|>'"},
      {"tokenizer.json", R"({"model": {"vocab": {"yes": 1, "<|im_start|>": 2, "<|im_end|>": 3}}})",
       ErrorCode::invalid_model, "has no token 'no'"},
      {"tokenizer.json", R"({"model": {"vocab": {"yes": "1", "no": 4, "<|im_start|>": 2, "<|im_end|>": 3}}})",
       ErrorCode::invalid_model, "has no token 'yes'"},
  };
  for (const auto& [file, text, code, words] : cases) {
    SetUp();
    std::filesystem::remove(folder_.path() / "modules.json");
    folder_.write(file, text);
    const Error error = refusal();
    EXPECT_EQ(error.code(), code) << error.message();
    EXPECT_THAT(error.message(), HasSubstr(words));
  }
}

}  // namespace
}  // namespace gpux::checkpoint
