// What gpux makes of texts with small models of random weights, against what Hugging Face's pipelines say with them:
// scripts/references/task-references writes the models and their answers.
#include "pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "gpux/runtime.h"
#include "pipeline/labels.h"
#include "pipeline/task_folder.h"

namespace gpux::pipeline {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr double near = 2e-4;  // the references ran in another order of additions

class PipelineOf : public testing::Test {
 protected:
  void open(const std::string& name) {
    folder_ = test::import_task_folder(temporary_, name);
    runtime_.emplace(folder_ / "model.onnx");
    const Signature& signature = runtime_->info().signature;
    auto settings = read_text_settings(folder_ / "model.onnx", nullptr, signature);
    ASSERT_TRUE(settings);
    pipeline_.emplace(*settings, signature);
    answers_ = json::parse(read_file(test::task_data(name) / "answers.json"));
  }

  static Tensor strings(std::vector<std::string> texts) {
    const auto count = static_cast<std::int64_t>(texts.size());
    return Tensor::of_strings({count}, std::move(texts));
  }

  [[nodiscard]] NamedValues infer(const NamedValues& given) const {
    return pipeline::infer(*pipeline_, *runtime_, given);
  }

  std::string message_of(const NamedValues& given, const PrepareOptions& options = {}) {
    try {
      (void)pipeline_->prepare(given, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      return error.message();
    }
    return "nothing is wrong";
  }

  test::TemporaryFolder temporary_;
  std::filesystem::path folder_;
  std::optional<Runtime> runtime_;
  std::optional<Pipeline> pipeline_;
  json answers_;
};

class Classifiers : public PipelineOf, public testing::WithParamInterface<const char*> {};

TEST_P(Classifiers, ScoreLikeTransformers) {
  open(GetParam());
  ASSERT_EQ(pipeline_->settings().task, Task::text_classification);
  const auto declared = pipeline_->outputs(std::nullopt);
  ASSERT_EQ(declared.size(), 1U);
  ASSERT_GT(answers_.at("cases").size(), 5U);
  for (const json& one : answers_.at("cases")) {
    NamedValues given{{"text", strings({one.at("texts").at(0)})}};
    if (one.at("texts").size() == 2) given.emplace_back("text_pair", strings({one.at("texts").at(1)}));
    const NamedValues outputs = infer(given);
    const auto logits = outputs.front().second.tensor()->as<float>();
    ASSERT_EQ(logits.size(), one.at("logits").size());
    for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], one.at("logits").at(i).get<double>(), near);
    const auto scores = pipeline::label_scores(declared.front(), *outputs.front().second.tensor());
    for (std::size_t i = 0; i < scores.front().size(); ++i) {
      EXPECT_EQ(scores.front()[i].label, one.at("scores").at(i).at("label").get<std::string>()) << one.at("texts");
      EXPECT_NEAR(scores.front()[i].score, one.at("scores").at(i).at("score").get<double>(), near);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Classifiers,
                         testing::Values("classify-bert", "classify-distilbert", "classify-xlm-roberta"),
                         [](const auto& with) {
                           std::string name = with.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_F(PipelineOf, GivesATextTheSameBitsWhateverItComesWith) {
  open("classify-bert");
  std::vector<std::string> texts;
  for (const json& one : answers_.at("cases")) texts.push_back(one.at("texts").at(0));
  const NamedValues all = infer({{"text", strings(texts)}});
  const Tensor& together = *all.front().second.tensor();
  ASSERT_EQ(together.shape(), (Shape{static_cast<std::int64_t>(texts.size()), 3}));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const NamedValues alone = infer({{"text", strings({texts[i]})}});
    const auto bytes = alone.front().second.tensor()->bytes();
    const auto row = together.rows(static_cast<std::int64_t>(i), 1).bytes();
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), row.begin(), row.end())) << texts[i];
  }
}

TEST_F(PipelineOf, RanksLikeTransformers) {
  open("rank-mpnet");
  ASSERT_EQ(pipeline_->settings().task, Task::text_ranking);
  std::vector<std::string> texts;
  for (const json& one : answers_.at("cases")) {
    const NamedValues outputs = infer({{"query", strings({one.at("query")})}, {"text", strings({one.at("text")})}});
    EXPECT_NEAR(find(outputs, "logits")->tensor()->as<float>()[0], one.at("logit").get<double>(), near);
    EXPECT_NEAR(find(outputs, "scores")->tensor()->as<float>()[0], one.at("score").get<double>(), near);
    texts.push_back(one.at("text"));
  }
  // One query of many texts.
  const NamedValues many =
      infer({{"query", strings({answers_.at("cases").at(0).at("query")})}, {"text", strings(texts)}});
  EXPECT_EQ(find(many, "scores")->tensor()->shape(), (Shape{static_cast<std::int64_t>(texts.size())}));
  EXPECT_NEAR(find(many, "scores")->tensor()->as<float>()[0], answers_.at("cases").at(0).at("score").get<double>(),
              near);
}

class Namers : public PipelineOf, public testing::WithParamInterface<const char*> {};

TEST_P(Namers, FindEntitiesLikeTransformers) {
  open(GetParam());
  std::size_t found = 0;
  for (const json& one : answers_.at("cases")) {
    TextSettings settings = pipeline_->settings();
    settings.aggregation = *value_named(aggregation_names, one.at("strategy").get<std::string>());
    const Pipeline with(settings, runtime_->info().signature);
    const NamedValues outputs = pipeline::infer(with, *runtime_, {{"text", strings({one.at("text")})}});
    const json told = json::parse(find(outputs, "entities")->tensor()->strings()[0]);
    const json& expected = one.at("entities");
    ASSERT_EQ(told.size(), expected.size()) << one.at("strategy") << told << expected;
    found += told.size();
    for (std::size_t i = 0; i < told.size(); ++i) {
      const bool is_none = settings.aggregation == Aggregation::none;
      EXPECT_EQ(told[i].at(is_none ? "entity" : "entity_group"), expected[i].at("label"));
      EXPECT_NEAR(told[i].at("score").get<double>(), expected[i].at("score").get<double>(), near);
      EXPECT_EQ(told[i].at("start"), expected[i].at("start"));
      EXPECT_EQ(told[i].at("end"), expected[i].at("end"));
    }
  }
  EXPECT_GT(found, 20U);
}

INSTANTIATE_TEST_SUITE_P(Families, Namers, testing::Values("entities-bert", "entities-mpnet"), [](const auto& with) {
  std::string name = with.param;
  std::erase(name, '-');
  return name;
});

class Answerers : public PipelineOf, public testing::WithParamInterface<const char*> {};

TEST_P(Answerers, AnswerLikeTransformers) {
  open(GetParam());
  std::size_t max_parts = 0;
  for (const json& one : answers_.at("cases")) {
    const NamedValues given{{"question", strings({one.at("question")})}, {"context", strings({one.at("context")})}};
    max_parts = std::max(max_parts, pipeline_->prepare(given).parts.size());
    const json told = json::parse(find(infer(given), "answers")->tensor()->strings()[0]);
    EXPECT_EQ(told.at("answer"), one.at("answer")) << one.at("question");
    EXPECT_EQ(told.at("start"), one.at("start"));
    EXPECT_EQ(told.at("end"), one.at("end"));
    EXPECT_NEAR(told.at("score").get<double>(), one.at("score").get<double>(), near);
  }
  EXPECT_GT(max_parts, 1U) << "a context should be too long for one run";
}

INSTANTIATE_TEST_SUITE_P(Families, Answerers, testing::Values("answers-distilbert", "answers-xlm-roberta"),
                         [](const auto& with) {
                           std::string name = with.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_F(PipelineOf, RefusesWhatItCannotRead) {
  open("classify-bert");
  const Tensor ids = Tensor::of<std::int64_t>({1, 2}, std::vector<std::int64_t>{2, 3});
  EXPECT_THAT(message_of({{"text_pair", strings({"a"})}}), HasSubstr("'text' is missing"));
  EXPECT_THAT(message_of({{"text", strings({"a", "b"})}, {"text_pair", strings({"a"})}}),
              HasSubstr("'text' has 2 texts, and 'text_pair' 1"));
  EXPECT_THAT(message_of({{"text", ids}}), HasSubstr("'text' is not a text, nor a list of texts"));
  EXPECT_THAT(message_of({{"text", strings({"a"})}, {"input_ids", ids}}),
              HasSubstr("both 'text' and 'input_ids' are given"));
  EXPECT_THAT(message_of({{"text", strings({})}}), HasSubstr("'text' holds no text"));
  std::string long_text;
  for (int i = 0; i < 100; ++i) long_text += "fox ";
  EXPECT_EQ(message_of({{"text", strings({long_text})}}), "nothing is wrong");
  EXPECT_THAT(message_of({{"text", strings({"a", long_text})}}, {.truncate = false}),
              testing::AllOf(HasSubstr("text 1"), HasSubstr("tokens; accepted: at most 64")));
  EXPECT_EQ(pipeline_->prepare({{"text", strings({long_text})}}).parts.front().tokens, 64U);
  EXPECT_THROW((void)pipeline_->model_outputs(std::vector<std::string>{"nothing"}), Error);
}

// transformers passes what model_input_names names, and a model without token_type_ids takes zeros for both texts.
TEST_F(PipelineOf, GivesTheModelWhatTheTokenizersSettingsName) {
  open("classify-bert");
  const NamedValues given{{"text", strings({"The quick"})}, {"text_pair", strings({"brown fox"})}};
  const auto types_of = [&] {
    const NamedValues inputs = pipeline_->prepare(given).parts.front().inputs;
    const std::span<const std::int64_t> types = find(inputs, "token_type_ids")->tensor()->as<std::int64_t>();
    return std::ranges::count(types, 1);
  };
  EXPECT_GT(types_of(), 0);
  temporary_.write("classify-bert-onnx/tokenizer_config.json",
                   R"({"model_max_length": 64, "model_input_names": ["input_ids", "attention_mask"]})");
  open("classify-bert");
  EXPECT_EQ(types_of(), 0);
}

TEST_F(PipelineOf, PutsThePromptOfACrossEncoderBeforeTheFirstText) {
  open("rank-mpnet");
  const std::vector<std::string> texts{"The quick brown fox", "jumps"};
  const auto scores = [&](const std::string& query) {
    const NamedValues outputs = infer({{"query", strings({query})}, {"text", strings(texts)}});
    const std::span<const float> all = find(outputs, "scores")->tensor()->as<float>();
    return std::vector<float>(all.begin(), all.end());
  };
  const std::vector<float> expected = scores("find: a fox"), plain = scores("a fox");
  EXPECT_NE(expected, plain);
  temporary_.write("rank-mpnet-onnx/config_sentence_transformers.json",
                   R"({"prompts": {"task": "find: "}, "default_prompt_name": "task"})");
  open("rank-mpnet");
  EXPECT_EQ(pipeline_->settings().prompt, "find: ");
  EXPECT_EQ(scores("a fox"), expected);
  const NamedValues one = infer({{"query", strings({"a fox"})}, {"text", strings({texts.front()})}});
  EXPECT_EQ(find(one, "scores")->tensor()->as<float>()[0], expected.front());
  temporary_.write("rank-mpnet-onnx/config_sentence_transformers.json", R"({"default_prompt_name": "task"})");
  EXPECT_THROW(open("rank-mpnet"), Error);
}

TEST_F(PipelineOf, RefusesATokenThatTheModelHasNoEmbeddingFor) {
  for (const char* name : {"classify-bert", "rank-mpnet", "answers-distilbert"}) {
    (void)test::import_task_folder(temporary_, name);
    temporary_.write(std::string(name) + "-onnx/tokenizer_config.json",
                     R"({"added_tokens_decoder": {"1500": {"content": "[QUERY]", "special": true}}})");
    open(name);
    NamedValues given;
    for (const SignatureEntry& entry : pipeline_->text_inputs()) {
      if (entry.required) given.emplace_back(entry.name, strings({"a fox [QUERY] ran"}));
    }
    EXPECT_EQ(message_of(given),
              "the text has the token 1500 '[QUERY]'; accepted: 0 to 1499, the tokens that the model has embeddings "
              "for")
        << name;
  }
  open("classify-bert");
  EXPECT_THAT(message_of({{"text", strings({"a fox", "[QUERY]"})}}), HasSubstr("text 1: the text has the token 1500"));
}

TEST_F(PipelineOf, FillsUpToAFixedLength) {
  open("classify-bert");
  TextSettings settings = pipeline_->settings();
  settings.fills_up = true;
  settings.max_tokens = 24;
  const Pipeline filling(settings, runtime_->info().signature);
  const NamedValues given{{"text", strings({"The quick brown fox"})}};
  const Prepared prepared = filling.prepare(given);
  for (const auto& [name, value] : prepared.parts.front().inputs) EXPECT_EQ(value.tensor()->shape(), (Shape{1, 24}));
  const NamedValues filled = pipeline::infer(filling, *runtime_, given);
  const NamedValues plain = infer(given);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(filled.front().second.tensor()->as<float>()[i], plain.front().second.tensor()->as<float>()[i], near);
  }
}

}  // namespace
}  // namespace gpux::pipeline
