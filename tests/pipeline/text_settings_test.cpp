#include "pipeline/text_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "project/project_file.h"

namespace gpux::pipeline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Signature takes_tokens(std::optional<std::int64_t> sequence = std::nullopt) {
  Signature signature;
  SignatureEntry& ids = signature.inputs.emplace_back();
  ids.name = "input_ids";
  ids.type.kind = ValueKind::tensor;
  ids.type.element = ElementType::int64;
  ids.type.dimensions = std::vector<Dimension>{{std::nullopt, "batch"}, {sequence, ""}};
  return signature;
}

class TextSettingsOf : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path onnx_file() const { return folder_.path() / "model.onnx"; }

  [[nodiscard]] TextSettings read(const std::string& config, const std::string& yaml = {},
                                  const Signature& signature = takes_tokens()) const {
    folder_.write("tokenizer.json", "{}");
    folder_.write("config.json", config);
    const std::optional<ProjectFile> project = project_of(yaml);
    const auto settings = read_text_settings(onnx_file(), project ? &*project : nullptr, signature);
    EXPECT_TRUE(settings);
    return settings.value_or(TextSettings{});
  }

  [[nodiscard]] std::optional<ProjectFile> project_of(const std::string& yaml) const {
    if (yaml.empty()) return std::nullopt;
    return parse_project_file("name: a\nmodel: {source: model.onnx}\n" + yaml, folder_.path() / "gpux.yml");
  }

  [[nodiscard]] std::string failure(const std::string& config, const std::string& yaml = {},
                                    const Signature& signature = takes_tokens()) const {
    try {
      (void)read(config, yaml, signature);
    } catch (const Error& error) {
      return error.message();
    }
    return "nothing is wrong";
  }

  test::TemporaryFolder folder_;
};

TEST_F(TextSettingsOf, SayTheTask) {
  struct Case {
    std::string config;
    Task task;
    Activation activation;
  };

  const std::vector<Case> cases{
      {R"({})", Task::none, Activation::softmax},
      {R"({"architectures": ["BertModel"]})", Task::none, Activation::softmax},
      {R"({"architectures": ["BertForSequenceClassification"]})", Task::text_classification, Activation::softmax},
      {R"({"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}})", Task::text_ranking,
       Activation::sigmoid},
      {R"({"architectures": ["XForSequenceClassification"], "problem_type": "multi_label_classification"})",
       Task::text_classification, Activation::sigmoid},
      {R"({"architectures": ["XForSequenceClassification"], "problem_type": "regression"})", Task::text_classification,
       Activation::none},
      {R"({"architectures": ["MPNetForTokenClassification"]})", Task::token_classification, Activation::softmax},
      {R"({"architectures": ["DistilBertForQuestionAnswering"]})", Task::question_answering, Activation::softmax},
  };
  for (const Case& one : cases) {
    const TextSettings settings = read(one.config);
    EXPECT_EQ(settings.task, one.task) << one.config;
    EXPECT_EQ(settings.activation, one.activation) << one.config;
  }
}

TEST_F(TextSettingsOf, RefuseAnActivationOfTheWrongType) {
  const std::string ranker = R"({"architectures": ["BertForSequenceClassification"], "num_labels": 1, )";
  EXPECT_THAT(failure(ranker + R"("sentence_transformers": {"activation_fn": 5}})"),
              HasSubstr("sentence_transformers.activation_fn is 5; accepted: a text"));
  EXPECT_THAT(failure(ranker + R"("sentence_transformers": "Sigmoid"})"),
              HasSubstr("sentence_transformers is \"Sigmoid\"; accepted: an object"));
  EXPECT_EQ(read(ranker + R"("sentence_transformers": {"activation_fn": null}})").ranking, PairActivation::sigmoid);
}

TEST_F(TextSettingsOf, TakeLabelsInTheirOrder) {
  EXPECT_THAT(read(R"({"id2label": {"1": "b", "0": "a", "2": "c"}})").labels, ElementsAre("a", "b", "c"));
  EXPECT_THAT(failure(R"({"id2label": {"0": "a", "2": "b"}})"), HasSubstr("id2label.2 is \"b\""));
  EXPECT_THAT(failure(R"({"id2label": ["a"]})"), HasSubstr("accepted: an object of texts"));
}

TEST_F(TextSettingsOf, AreOverruledByGpuxYml) {
  const TextSettings settings = read(R"({"max_position_embeddings": 512, "architectures": ["BertModel"]})",
                                     "task: token-classification\n"
                                     "preprocessing: {max_length: 100, truncation_side: left, padding: max_length, "
                                     "pair_truncation: only_second}\n"
                                     "postprocessing: {aggregation: max, max_answer_length: 7}\n");
  EXPECT_EQ(settings.task, Task::token_classification);
  EXPECT_EQ(settings.max_tokens, 100U);
  EXPECT_TRUE(settings.truncate_left);
  EXPECT_TRUE(settings.fills_up);
  EXPECT_EQ(settings.pair_truncation, text::PairTruncation::second_only);
  EXPECT_EQ(settings.aggregation, Aggregation::max);
  EXPECT_EQ(settings.max_answer_tokens, 7U);
  EXPECT_THAT(failure(R"({"max_position_embeddings": 64})", "preprocessing: {max_length: 100}\n"),
              HasSubstr("preprocessing.max_length is 100; accepted: at most the model's 64"));
  EXPECT_THAT(failure("{}", "preprocessing: {padding: max_length}\n"), HasSubstr("give preprocessing.max_length"));
  EXPECT_THAT(failure("{}", "preprocessing: {tokenizer: other.json}\n"), HasSubstr("there is no such file"));
  EXPECT_THAT(failure("{}", "task: text-ranking\n", Signature{}), HasSubstr("the model has no input 'input_ids'"));
}

TEST_F(TextSettingsOf, FollowAFixedLength) {
  const TextSettings settings = read(R"({"max_position_embeddings": 512})", "", takes_tokens(128));
  EXPECT_EQ(settings.max_tokens, 128U);
  EXPECT_TRUE(settings.fills_up);
}

// However short a text is, it would take so much.
TEST_F(TextSettingsOf, FillNoTextUpWithoutLimit) {
  constexpr std::int64_t limit = 1 << 17;
  EXPECT_EQ(read("{}", "", takes_tokens(limit)).max_tokens, limit);
  EXPECT_THAT(failure("{}", "", takes_tokens(limit + 1)), HasSubstr("up to 131073 tokens; accepted: up to 131072"));
  EXPECT_THAT(failure("{}", "preprocessing: {padding: max_length, max_length: 2000000000}\n"),
              HasSubstr("up to 2000000000 tokens"));
  EXPECT_EQ(read("{}", "preprocessing: {max_length: 2000000000}\n").max_tokens, 2000000000U);
}

TEST_F(TextSettingsOf, AreNotThereWithoutATokenizer) {
  EXPECT_FALSE(read_text_settings(onnx_file(), nullptr, takes_tokens()));
  EXPECT_FALSE(read_text_settings(onnx_file(), nullptr, Signature{}));
  const auto project = project_of("task: text-ranking\n");
  EXPECT_THROW((void)read_text_settings(onnx_file(), &*project, takes_tokens()), Error);
}

TEST_F(TextSettingsOf, LetTextsBeDeclared) {
  const auto project = project_of("inputs: {text: string}\noutputs: {scores: float32}\n");
  const Signature signature = declarable(takes_tokens(), *project);
  ASSERT_EQ(signature.inputs.size(), 2U);
  EXPECT_EQ(signature.inputs[1].name, "text");
  EXPECT_FALSE(signature.inputs[0].required);
  EXPECT_EQ(signature.outputs.size(), 1U);
  EXPECT_EQ(declarable(Signature{}, *project).inputs.size(), 0U);
}

}  // namespace
}  // namespace gpux::pipeline
