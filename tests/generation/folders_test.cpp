// Folders of other tools (scripts/references/decoder-folders): the layouts of onnxruntime-genai and of Optimum.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "generation/decoder.h"
#include "generation/engine.h"
#include "generation/model_files.h"
#include "gpux/error.h"
#include "gpux/generator.h"
#include "gpux/model_inspector.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const fs::path folders = GPUX_SOURCE_DIR "/tests/generation/folders";

GenerationSettings greedy(std::size_t tokens) {
  GenerationSettings settings;
  settings.temperature = 0;
  settings.max_tokens = tokens;
  settings.ignores_end = true;
  return settings;
}

class DecoderFolders : public testing::TestWithParam<std::string> {};

TEST_P(DecoderFolders, GenerateTheTokensOfTransformers) {
  const Generator generator((folders / GetParam()).string());
  for (const json& row : json::parse(read_file(folders / GetParam() / "answers.json"))) {
    const auto expected = row.at("tokens").get<std::vector<std::uint32_t>>();
    const Completion completion = generator.generate(row.at("prompt").get<std::string>(), greedy(expected.size()));
    EXPECT_EQ(completion.tokens, expected) << row.at("prompt");
    EXPECT_EQ(completion.prompt_tokens, row.at("ids").size());
  }
}

// Texts that run at the same time, and begin alike, have the tokens of those that run alone.
TEST_P(DecoderFolders, GenerateTheSameAtTheSameTime) {
  const Generator generator((folders / GetParam()).string());
  const json rows = json::parse(read_file(folders / GetParam() / "answers.json"));
  std::vector<GenerationStream> streams;
  std::vector<std::vector<std::uint32_t>> expected;
  for (std::size_t i = 0; i < 2 * rows.size(); ++i) {
    const json& row = rows.at(i % rows.size());
    expected.push_back(row.at("tokens").get<std::vector<std::uint32_t>>());
    streams.push_back(generator.stream(row.at("prompt").get<std::string>(), greedy(expected.back().size())));
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    while (streams[i].next()) {
    }
    EXPECT_EQ(streams[i].completion().tokens, expected[i]) << i;
  }
}

TEST_P(DecoderFolders, SayWhetherKeysAndValuesAreCopied) {
  const fs::path folder = folders / GetParam();
  const generation::ModelFiles files = generation::read_model_files(folder);
  EXPECT_EQ(files.context_length, 384);
  EXPECT_THAT(files.defaults.end_tokens, ElementsAre(3));
  generation::Engine engine(Runtime(folder / "model.onnx"), text::Tokenizer::from_file(files.tokenizer), files);
  const std::vector<Message> notes = engine.verdict().notes;
  if (GetParam() == "genai") {
    EXPECT_THAT(notes, testing::Not(testing::Contains(HasSubstr("copied"))));
  } else {
    EXPECT_THAT(notes, testing::Contains(HasSubstr("copied at each step")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, DecoderFolders, testing::Values("genai", "optimum", "optimum-float16"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

// Hugging Face's layout: the settings are in the folder around that of the ONNX file.
TEST(OnnxFolder, HasItsSettingsInTheFolderAroundIt) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder.path() / "onnx");
  for (const auto& entry : fs::directory_iterator(folders / "optimum")) {
    const bool is_model = entry.path().extension() == ".onnx";
    fs::copy_file(entry.path(), folder.path() / (is_model ? "onnx" : "") / entry.path().filename());
  }
  const json row = json::parse(read_file(folders / "optimum/answers.json")).front();
  const Generator generator(folder.path().string());
  const auto expected = row.at("tokens").get<std::vector<std::uint32_t>>();
  EXPECT_EQ(generator.generate(row.at("prompt").get<std::string>(), greedy(expected.size())).tokens, expected);
}

class GenaiConfigs : public testing::Test {
 protected:
  /// A copy of the folder whose genai_config.json `change` has changed.
  template <typename Change>
  fs::path changed(const Change& change) {
    const fs::path copy = folder_.path() / std::to_string(++count_);
    fs::copy(folders / "genai", copy);
    json config = json::parse(read_file(copy / "genai_config.json"));
    change(config);
    write_file_atomically(copy / "genai_config.json", config.dump());
    return copy;
  }

  template <typename Change>
  std::string failure(const Change& change) {
    try {
      const Generator generator(changed(change).string());
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }

  test::TemporaryFolder folder_;
  int count_ = 0;
};

TEST_F(GenaiConfigs, RefuseOtherLayoutsByName) {
  const auto decoder = [](json& config) -> json& { return config["model"]["decoder"]; };
  EXPECT_THAT(failure([&](json& config) { decoder(config)["pipeline"] = json::array({json::object()}); }),
              HasSubstr("model.decoder.pipeline is [{}]; accepted: one ONNX file"));
  EXPECT_THAT(failure([&](json& config) {
                decoder(config)["sliding_window"] = {{"window_size", 8}};
              }),
              HasSubstr("model.decoder.sliding_window"));
  EXPECT_THAT(failure([&](json& config) { config["model"]["vision"] = json::object(); }), HasSubstr("model.vision"));
  EXPECT_THAT(failure([&](json& config) { decoder(config)["inputs"]["past_names"] = "past_%d"; }),
              HasSubstr("past_names is \"past_%d\"; accepted: past_key_names"));
  EXPECT_THAT(failure([&](json& config) { decoder(config)["inputs"]["past_key_names"] = "keys"; }),
              HasSubstr("a name with %d for the layer"));
  EXPECT_THAT(failure([&](json& config) { config["model"].erase("context_length"); }),
              HasSubstr("has no model.context_length"));
  EXPECT_THAT(failure([&](json& config) { config["model"]["eos_token_id"] = "end"; }),
              HasSubstr("model.eos_token_id is \"end\""));
  EXPECT_THAT(failure([&](json& config) { config.erase("model"); }), HasSubstr("has no model.decoder"));
  EXPECT_THAT(failure([&](json& config) { decoder(config)["filename"] = "../model.onnx"; }),
              HasSubstr("model.decoder.filename is \"../model.onnx\"; accepted: the name of a file in the folder"));
  // Names that the graph does not have.
  EXPECT_THAT(failure([&](json& config) { decoder(config)["inputs"]["input_ids"] = "tokens"; }),
              HasSubstr("generates no text: it has no tokens"));
}

TEST_F(GenaiConfigs, GiveTheSettingsOfSampling) {
  const fs::path folder = changed([](json& config) {
    config["search"].update({{"do_sample", true}, {"temperature", 0.5}, {"top_k", 7}, {"top_p", 0.25}});
    config["model"]["eos_token_id"] = {3, 5};
  });
  const generation::ModelFiles files = generation::read_model_files(folder);
  EXPECT_EQ(files.defaults.sampling.temperature, 0.5F);
  EXPECT_EQ(files.defaults.sampling.top_k, 7);
  EXPECT_EQ(files.defaults.sampling.top_p, 0.25F);
  EXPECT_THAT(files.defaults.end_tokens, ElementsAre(3, 5));
}

ModelInfo decoder_info() {
  ModelInfo info;
  info.name = "model";
  const auto tensor = [](const char* name, ElementType type, std::vector<std::optional<std::int64_t>> sizes) {
    SignatureEntry entry{.name = name, .type = {.element = type}};
    entry.type.dimensions.emplace();
    for (const auto& size : sizes) entry.type.dimensions->push_back({size, ""});
    return entry;
  };
  info.signature.inputs = {tensor("input_ids", ElementType::int64, {{}, {}}),
                           tensor("attention_mask", ElementType::int64, {{}, {}}),
                           tensor("past_key_values.0.key", ElementType::float16, {{}, 2, {}, 8}),
                           tensor("past_key_values.0.value", ElementType::float16, {{}, 2, {}, 8})};
  info.signature.outputs = {tensor("logits", ElementType::float16, {{}, {}, 100}),
                            tensor("present.0.key", ElementType::float16, {{}, 2, {}, 8}),
                            tensor("present.0.value", ElementType::float16, {{}, 2, {}, 8})};
  return info;
}

std::string obstacle(const ModelInfo& info, std::int64_t head_size = 0) {
  const generation::DecoderMatch match = generation::match_decoder(info, {}, head_size);
  EXPECT_NE(match.signature.has_value(), !match.obstacle.empty());
  return match.obstacle;
}

TEST(MatchDecoder, FindsTheCacheOfALayer) {
  const ModelInfo info = decoder_info();
  EXPECT_THAT(obstacle(info), IsEmpty());
  const generation::DecoderMatch match = generation::match_decoder(info, {}, 0);
  ASSERT_TRUE(match.signature.has_value());
  const generation::CacheLayout expected{.arrays = 2, .heads = 2, .head_size = 8, .type = ElementType::float16};
  EXPECT_EQ(match.signature->cache, expected);
  EXPECT_FALSE(match.signature->writes_in_place);
  EXPECT_FALSE(match.signature->has_position_ids);
}

TEST(MatchDecoder, NamesWhatIsMissingOrUnknown) {
  ModelInfo info = decoder_info();
  info.signature.inputs[2].type.dimensions->at(3).size.reset();
  EXPECT_THAT(obstacle(info), HasSubstr("its input past_key_values.0.key is float16[?, 2, ?, ?]"));
  info.signature.inputs[3].type.dimensions->at(3).size.reset();
  EXPECT_THAT(obstacle(info, 8), IsEmpty());

  info = decoder_info();
  info.signature.inputs[2].type.dimensions->at(2).size = 128;
  EXPECT_THAT(obstacle(info), HasSubstr("any number of tokens"));

  info = decoder_info();
  info.signature.inputs[3].type.element = ElementType::int8;
  EXPECT_THAT(obstacle(info), HasSubstr("past_key_values.0.value is int8"));

  info = decoder_info();
  info.signature.outputs.pop_back();
  EXPECT_THAT(obstacle(info), HasSubstr("it has no present.0.value"));

  info = decoder_info();
  info.signature.inputs.push_back({.name = "num_logits_to_keep", .type = {.element = ElementType::int64}});
  EXPECT_THAT(obstacle(info), HasSubstr("inputs of another kind: num_logits_to_keep"));

  info.signature.inputs.back().name = "use_cache_branch";
  EXPECT_THAT(obstacle(info), HasSubstr("it is a merged decoder"));

  info = decoder_info();
  info.signature.inputs[1].type.element = ElementType::int32;
  EXPECT_THAT(obstacle(info), HasSubstr("attention_mask is not of int64"));

  info = decoder_info();
  info.signature.inputs.resize(2);
  EXPECT_THAT(obstacle(info), HasSubstr("it has no input past_key_values.0.key"));
}

}  // namespace
}  // namespace gpux
