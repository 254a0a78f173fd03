#include "generation/settings.h"

#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "generation/model_files.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ModelSettings, ThatWouldChooseOtherTokensAreRefused) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", "{}");
  folder.write("config.json", R"({"max_position_embeddings": 64})");
  const auto message_of = [&](const std::string& settings) {
    folder.write("generation_config.json", settings);
    try {
      (void)read_model_files(folder.path());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model);
      return error.message();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message_of(R"({"num_beams": 4})"), HasSubstr("num_beams is 4; accepted: null, 1"));
  EXPECT_THAT(message_of(R"({"suppress_tokens": [1]})"), HasSubstr("suppress_tokens is [1]; accepted: null"));
  EXPECT_THAT(message_of(R"({"forced_eos_token_id": 0})"), HasSubstr("forced_eos_token_id is 0; accepted: null"));
  EXPECT_THAT(message_of(R"({"do_sample": true, "eta_cutoff": 0.1})"), HasSubstr("eta_cutoff is 0.1"));
  EXPECT_EQ(message_of(R"({"eta_cutoff": 0.1})"), "accepted") << "only sampling has a use for it";
  EXPECT_EQ(message_of(R"({"num_beams": 1, "no_repeat_ngram_size": 0, "suppress_tokens": [], "bad_words_ids": null,
                           "token_healing": false, "guidance_scale": 1.0, "sequence_bias": {}})"),
            "accepted");
}

TEST(Settings, AreRefusedByNameOutsideTheirRange) {
  struct Row {
    std::function<void(GenerationSettings&)> set;
    const char* message;
  };

  const std::vector<Row> rows{
      {[](auto& s) { s.temperature = -0.1F; }, "temperature is -0.1; accepted: 0 to 100"},
      {[](auto& s) { s.temperature = std::numeric_limits<float>::quiet_NaN(); }, "temperature is nan"},
      {[](auto& s) { s.top_p = 0; }, "top_p is 0; accepted: above 0 to 1"},
      {[](auto& s) { s.top_p = 1.5F; }, "top_p is 1.5"},
      {[](auto& s) { s.min_p = 2; }, "min_p is 2"},
      {[](auto& s) { s.typical_p = 0; }, "typical_p is 0"},
      {[](auto& s) { s.repetition_penalty = 0; }, "repetition_penalty is 0; accepted: above 0"},
      {[](auto& s) { s.presence_penalty = 3; }, "presence_penalty is 3; accepted: -2 to 2"},
      {[](auto& s) { s.frequency_penalty = -3; }, "frequency_penalty is -3"},
      {[](auto& s) {
         s.logit_bias = {{5, 101}};
       },
       "logit_bias of token 5 is 101"},
      {[](auto& s) { s.stop = {""}; }, "stop has a text of 0 bytes"},
      {[](auto& s) { s.stop.assign(65, "x"); }, "stop has 65 texts"},
      {[](auto& s) {
         s.ignores_end = true;
         s.constraint.kind = OutputConstraint::Kind::json_object;
       },
       "ignores_end is set, and a constraint"},
      {[](auto& s) {
         s.min_tokens = 3;
         s.constraint.kind = OutputConstraint::Kind::regex;
       },
       "min_tokens is 3, and a constraint decides where the text ends"},
      {[](auto& s) { s.min_tokens = 3, s.max_tokens = 2; }, "min_tokens is 3; accepted: up to max_tokens, 2"},
  };
  for (const Row& row : rows) {
    GenerationSettings settings;
    row.set(settings);
    try {
      check(settings);
      ADD_FAILURE() << row.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.message(), HasSubstr(row.message));
    }
  }
  check({});
}

TEST(Settings, AreTheModelsWhereTheyAreEmpty) {
  test::TemporaryFolder folder;
  folder.write("tokenizer.json", "{}");
  folder.write("config.json", R"({"max_position_embeddings": 64, "eos_token_id": 9})");
  ModelFiles files = read_model_files(folder.path());
  EXPECT_EQ(files.context_length, 64);
  EXPECT_THAT(files.defaults.end_tokens, ElementsAre(9));
  EXPECT_EQ(resolve({}, files.defaults, 5).temperature, 0);
  EXPECT_EQ(resolve({}, files.defaults, 5).seed, 5);

  folder.write("generation_config.json",
               R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [3, 4]})");
  files = read_model_files(folder.path());
  EXPECT_THAT(files.defaults.end_tokens, ElementsAre(3, 4));
  GenerationSettings settings;
  settings.top_p = 0.5F;
  settings.seed = 11;
  const Sampling sampling = resolve(settings, files.defaults, 5);
  EXPECT_FLOAT_EQ(sampling.temperature, 0.6F);
  EXPECT_EQ(sampling.top_k, 20);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.5F);
  EXPECT_EQ(sampling.seed, 11);

  // Without do_sample, transformers takes the most probable token.
  folder.write("generation_config.json", R"({"temperature": 0.6})");
  EXPECT_EQ(read_model_files(folder.path()).defaults.sampling.temperature, 0);
}

// Logits over it would be infinite, and all tokens alike.
TEST(Settings, TakeATinyTemperatureForZero) {
  GenerationSettings settings;
  for (const float tiny : {1e-38F, 1e-6F, std::numeric_limits<float>::denorm_min()}) {
    settings.temperature = tiny;
    EXPECT_EQ(resolve(settings, {}, 5).temperature, 0) << tiny;
  }
  settings.temperature = 1e-5F;
  EXPECT_EQ(resolve(settings, {}, 5).temperature, 1e-5F);
  ModelDefaults defaults;
  defaults.sampling.temperature = 1e-30F;
  EXPECT_EQ(resolve({}, defaults, 5).temperature, 0);
}

TEST(Settings, SampleWhereTheClientAsksForIt) {
  struct Row {
    GenerationSettings settings;
    std::size_t answers;
    float of_model;
    std::optional<float> expected;
  };

  const auto with = [](auto change) {
    GenerationSettings settings;
    change(settings);
    return settings;
  };
  const GenerationSettings plain, top_k = with([](auto& one) { one.top_k = 5; });
  for (const Row& row : {
           Row{plain, 1, 0, std::nullopt},
           Row{plain, 2, 0, 1.F},
           Row{top_k, 1, 0, 1.F},
           Row{top_k, 1, 0.7F, std::nullopt},
           Row{with([](auto& one) { one.top_k = 1; }), 1, 0, std::nullopt},
           Row{with([](auto& one) { one.top_k = 0; }), 1, 0, std::nullopt},
           Row{with([](auto& one) { one.top_p = 0.9F; }), 1, 0, 1.F},
           Row{with([](auto& one) { one.top_p = 1.F; }), 1, 0, std::nullopt},
           Row{with([](auto& one) { one.temperature = 0.F; }), 3, 0, 0.F},
       }) {
    GenerationSettings settings = row.settings;
    ModelDefaults defaults;
    defaults.sampling.temperature = row.of_model;
    sample_where_asked(settings, row.answers, defaults);
    EXPECT_EQ(settings.temperature, row.expected);
  }
}

TEST(Settings, OfAModelAreRefusedWithTheirFile) {
  struct Row {
    const char* file;
    const char* text;
    const char* message;
  };

  for (const Row& row : std::vector<Row>{
           {"generation_config.json", R"({"eos_token_id": "three"})", "eos_token_id"},
           {"generation_config.json", R"({"eos_token_id": [-1]})", "eos_token_id"},
           {"generation_config.json", R"({"do_sample": true, "top_p": 7})", "top_p is 7"},
           {"generation_config.json", R"({"do_sample": true, "temperature": "hot"})", "temperature"},
           {"generation_config.json", R"({"repetition_penalty": 0})", "repetition_penalty is 0"},
           {"generation_config.json", R"({"repetition_penalty": 1e39})", "repetition_penalty is inf"},
           {"generation_config.json", R"({"do_sample": true, "top_k": 4294967297})", "top_k is 4294967297"},
           {"config.json", "{}", "max_position_embeddings"},
       }) {
    test::TemporaryFolder folder;
    folder.write("tokenizer.json", "{}");
    folder.write("config.json", R"({"max_position_embeddings": 64})");
    folder.write(row.file, row.text);
    try {
      (void)read_model_files(folder.path());
      ADD_FAILURE() << row.text;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr(row.message));
      EXPECT_THAT(error.message(), HasSubstr(row.file));
    }
  }
}

}  // namespace
}  // namespace gpux::generation
