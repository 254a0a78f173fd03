#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/files.h"
#include "base/recorded_disk.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/setting_files.h"
#include "embedding/embedder.h"
#include "embedding/pooling.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "importer/encoder_graph.h"
#include "importer/families/family.h"
#include "importer/import_model.h"
#include "onnx/quantize.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

fs::path data(const std::string& family) {
  return fs::path(GPUX_SOURCE_DIR) / "tests/embedding/data" / family;
}

class ImportEncoder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("gpux-import-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }

  void TearDown() override { fs::remove_all(folder_); }

  /// A folder of the family as people have them.
  fs::path source(const std::string& family) {
    const fs::path made = folder_ / ("source-" + family);
    fs::create_directories(made / "1_Pooling");
    for (const char* file : {"config.json", "model.safetensors"}) fs::copy_file(data(family) / file, made / file);
    fs::copy_file(fs::path(GPUX_SOURCE_DIR) / "tests/text/data/wordpiece.json", made / "tokenizer.json");
    write(made / "modules.json",
          R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
              {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
              {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])");
    write(made / "1_Pooling/config.json", R"({"word_embedding_dimension": 16, "pooling_mode_mean_tokens": true})");
    return made;
  }

  static void write(const fs::path& file, const std::string& text) { write_file_atomically(file, text); }

  /// What importing says when it fails.
  Error failure(const fs::path& from) {
    try {
      (void)import_model(from, folder_ / "made");
    } catch (const Error& error) {
      EXPECT_FALSE(fs::exists(folder_ / "made"));
      for (const auto& entry : fs::directory_iterator(folder_)) {
        EXPECT_FALSE(entry.path().filename().string().starts_with("made")) << entry.path();
      }
      return error;
    }
    ADD_FAILURE() << "it was imported";
    return {ErrorCode::internal, ""};
  }

  fs::path folder_;
};

/// A file of weights whose header is this.
std::string with_header(const std::string& header, const std::string& data) {
  std::string file(8, '\0');
  const std::uint64_t size = header.size();
  std::memcpy(file.data(), &size, sizeof size);
  return file + header + data;
}

NamedValues inputs_of(const json& answers, const Signature& signature) {
  NamedValues inputs;
  for (const SignatureEntry& entry : signature.inputs) {
    const json& rows = answers.at(entry.name);
    const auto count = static_cast<std::int64_t>(rows.size()), length = static_cast<std::int64_t>(rows[0].size());
    Tensor tensor = Tensor::allocate(ElementType::int64, {count, length});
    auto target = tensor.mutable_as<std::int64_t>().begin();
    for (const json& row : rows) {
      for (const json& value : row) *target++ = value.get<std::int64_t>();
    }
    inputs.emplace_back(entry.name, std::move(tensor));
  }
  return inputs;
}

void expect_near(const Tensor& tensor, const json& expected) {
  std::vector<double> flat;
  const std::function<void(const json&)> flatten = [&](const json& values) {
    if (!values.is_array()) return flat.push_back(values.get<double>());
    for (const json& value : values) flatten(value);
  };
  flatten(expected);
  const auto values = tensor.as<float>();
  ASSERT_EQ(values.size(), flat.size());
  for (std::size_t i = 0; i < flat.size(); ++i) ASSERT_NEAR(values[i], flat[i], 2e-5) << "element " << i;
}

class Families : public testing::TestWithParam<const char*> {};

TEST_P(Families, EqualTheReference) {
  const fs::path folder = data(GetParam());
  const checkpoint::Safetensors weights(folder / "model.safetensors");
  const importer::Architecture architecture =
      importer::describe_architecture(checkpoint::ConfigReader(read_file(folder / "config.json")), weights);
  const json answers = json::parse(read_file(folder / "answers.json"));
  const fs::path file = fs::temp_directory_path() / ("gpux-family-" + std::to_string(getpid()) + ".onnx");

  struct Case {
    importer::VectorSteps steps;
    const char* answer;
  };

  const std::vector<Case> cases{{{}, nullptr},
                                {{.pooling = importer::GraphPooling::mean, .normalize = false}, "mean"},
                                {{.pooling = importer::GraphPooling::mean, .normalize = true}, "normalized_mean"},
                                {{.pooling = importer::GraphPooling::cls, .normalize = false}, "cls"},
                                {{.pooling = importer::GraphPooling::max, .normalize = false}, "max"}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.answer == nullptr ? "no pooling" : one.answer);
    importer::write_encoder(weights, architecture, one.steps, file);
    const Runtime runtime(file);
    const NamedValues outputs = runtime.infer(inputs_of(answers, runtime.info().signature));
    ASSERT_EQ(outputs.size(), one.answer == nullptr ? 1U : 2U);
    EXPECT_EQ(outputs.back().first, "last_hidden_state");
    expect_near(*outputs.back().second.tensor(), answers["last_hidden_state"]);
    if (one.answer == nullptr) continue;
    EXPECT_EQ(outputs.front().first, "sentence_embedding");
    expect_near(*outputs.front().second.tensor(), answers[one.answer]);
  }
  fs::remove(file);
}

INSTANTIATE_TEST_SUITE_P(Encoder, Families, testing::Values("bert", "xlm-roberta", "distilbert", "mpnet"));

TEST_F(ImportEncoder, WhatItMakesEmbedsTexts) {
  // The tokenizer's vocabulary is larger than the small model's: words are chosen that both have.
  const ImportedModel imported = import_model(source("bert"), folder_ / "made");
  EXPECT_EQ(imported.family, "bert");
  EXPECT_EQ(imported.layers, 2);
  EXPECT_EQ(imported.pooling, "mean");
  EXPECT_TRUE(imported.normalize);
  EXPECT_THAT(imported.copied, Contains("1_Pooling/config.json"));
  checkpoint::SentenceModel model = checkpoint::read_sentence_model(folder_ / "made");
  EXPECT_EQ(model.max_tokens, 24U);
  Runtime runtime(model.onnx_file, {.intra_threads = 1});
  const embedding::TextEmbedder embedder(std::move(model), std::move(runtime));
  const std::vector<float> vector = embedder.embed("");  // [CLS] [SEP]
  ASSERT_EQ(vector.size(), 16U);
  double length = 0;
  for (const float value : vector) length += static_cast<double>(value) * value;
  EXPECT_NEAR(length, 1, 1e-5);

  // The graph normalizes; the vector before that comes from the vectors of its tokens.
  const embedding::EmbedOptions plain{.normalize = false};
  EXPECT_NO_THROW(embedder.encoder().check(plain));
  std::vector<float> unscaled = embedder.embed("", plain);
  double squares = 0;
  for (const float value : unscaled) squares += static_cast<double>(value) * value;
  EXPECT_GT(std::abs(squares - 1), 0.01);
  embedding::normalize(unscaled);
  EXPECT_THAT(unscaled, testing::Pointwise(testing::FloatNear(1e-6F), embedder.embed("")));
}

// transformers appends it when it loads the tokenizer.
TEST_F(ImportEncoder, AppendsTheEndTokenThatTheTokenizerConfigRequests) {
  const fs::path from = source("bert");
  const json sequence{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  json tokenizer = json::parse(read_file(from / "tokenizer.json"));
  tokenizer["post_processor"] = nullptr;
  const std::string end = tokenizer["added_tokens"][0]["content"].get<std::string>();
  write(from / "tokenizer.json", tokenizer.dump());
  write(from / "tokenizer_config.json", json{{"eos_token", end}}.dump());
  (void)import_model(from, folder_ / "without");
  EXPECT_EQ(read_file(folder_ / "without/tokenizer.json"), tokenizer.dump());

  write(from / "tokenizer_config.json", json{{"add_eos_token", true}, {"eos_token", end}}.dump());
  (void)import_model(from, folder_ / "with");
  const json made = json::parse(read_file(folder_ / "with/tokenizer.json"))["post_processor"];
  EXPECT_EQ(made["single"][0], sequence);
  EXPECT_EQ(made["single"][1]["SpecialToken"]["id"], end);
  EXPECT_EQ(made["special_tokens"][end]["ids"][0], tokenizer["added_tokens"][0]["id"]);

  // What appends it already stays.
  tokenizer["post_processor"] = made;
  write(from / "tokenizer.json", tokenizer.dump());
  (void)import_model(from, folder_ / "again");
  EXPECT_EQ(json::parse(read_file(folder_ / "again/tokenizer.json"))["post_processor"], made);

  write(from / "tokenizer_config.json", R"({"add_eos_token": true, "eos_token": "<nowhere>"})");
  tokenizer["post_processor"] = nullptr;
  write(from / "tokenizer.json", tokenizer.dump());
  EXPECT_THAT(failure(from).message(), HasSubstr("tokenizer.json has no added token '<nowhere>'"));
}

TEST_F(ImportEncoder, NormalizesAsTheFolderSays) {
  const fs::path from = source("bert");
  write(from / "modules.json",
        R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  const ImportedModel imported = import_model(from, folder_ / "made");
  EXPECT_FALSE(imported.normalize);
  checkpoint::SentenceModel model = checkpoint::read_sentence_model(folder_ / "made");
  EXPECT_FALSE(model.normalize);
  Runtime runtime(model.onnx_file, {.intra_threads = 1});
  const embedding::TextEmbedder embedder(std::move(model), std::move(runtime));
  double squares = 0;
  for (const float value : embedder.embed("")) squares += static_cast<double>(value) * value;
  EXPECT_GT(std::abs(squares - 1), 0.01);
}

// As stella has them: folders of any name, of which modules.json names some.
TEST_F(ImportEncoder, ReadsModulesInTheFoldersThatModulesJsonNames) {
  const fs::path from = source("bert"), other = folder_ / "other";
  fs::create_directories(from / "text/weights");
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    fs::rename(from / file, from / "text/weights" / file);
  }
  write(from / "text/weights/sentence_bert_config.json", R"({"max_seq_length": 11})");
  fs::rename(from / "1_Pooling", from / "pooling");
  fs::create_directories(from / "2_Dense_4");
  write(from / "2_Dense_4/config.json",
        R"({"in_features": 16, "out_features": 4, "bias": false, "activation_function": "torch.nn.Identity"})");
  const std::string weights(std::size_t{4} * 16 * sizeof(float), '\0');
  write(from / "2_Dense_4/model.safetensors",
        with_header(R"({"linear.weight": {"dtype": "F32", "shape": [4, 16], "data_offsets": [0, 256]}})", weights));
  fs::create_directories(from / "2_Dense");
  write(from / "2_Dense/config.json", R"({"in_features": 16, "out_features": 8})");
  write(from / "modules.json", R"([{"type": "sentence_transformers.models.Transformer", "path": "text/weights"},
                                   {"type": "sentence_transformers.models.Pooling", "path": "pooling"},
                                   {"type": "sentence_transformers.models.Dense", "path": "2_Dense_4"}])");
  EXPECT_NO_THROW((void)require_importable(from));
  const ImportedModel imported = import_model(from, folder_ / "made");
  EXPECT_THAT(imported.copied, Contains("pooling/config.json"));
  EXPECT_THAT(imported.copied, Contains("2_Dense_4/model.safetensors"));
  EXPECT_THAT(imported.copied, Not(Contains("2_Dense/config.json")));
  EXPECT_EQ(imported.max_tokens, 11U);
  // Beside the ONNX file, it is read as it was read before.
  const checkpoint::SentenceModel model = checkpoint::read_sentence_model(folder_ / "made");
  EXPECT_EQ(model.max_tokens, 11U);
  EXPECT_EQ(model.transformer_folder, folder_ / "made");
  ASSERT_EQ(model.dense.size(), 1U);
  EXPECT_EQ(model.dense.front().out, 4);
  EXPECT_THAT(checkpoint::setting_files_in(folder_ / "made"),
              testing::IsSupersetOf({"2_Dense_4/config.json", "2_Dense_4/model.safetensors", "pooling/config.json"}));
  EXPECT_THAT(checkpoint::setting_files_in(from),
              testing::IsSupersetOf({"text/weights/tokenizer.json", "pooling/config.json"}));
}

TEST_F(ImportEncoder, RefusesADenseOfAnotherWidth) {
  const fs::path from = source("bert");
  fs::create_directories(from / "2_Dense");
  write(from / "2_Dense/config.json", R"({"in_features": 8, "out_features": 2, "bias": false})");
  const std::string weights(std::size_t{2} * 8 * sizeof(float), '\0');
  write(from / "2_Dense/model.safetensors",
        with_header(R"({"linear.weight": {"dtype": "F32", "shape": [2, 8], "data_offsets": [0, 64]}})", weights));
  write(from / "modules.json", R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
                                   {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
                                   {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}])");
  for (const bool is_whole : {false, true}) {
    try {
      is_whole ? (void)import_model(from, folder_ / "made") : (void)require_importable(from);
      ADD_FAILURE() << is_whole;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model);
      EXPECT_THAT(error.message(), HasSubstr("a Dense of modules.json takes 8 numbers, and there are 16"));
    }
  }
}

TEST_F(ImportEncoder, SurvivesALossOfPowerOnceItIsDone) {
  const fs::path from = source("bert");
  std::string risk = "the folder was not renamed to its place";
  test::RecordedDisk* recorded = nullptr;
  test::RecordedDisk disk([&](const DiskCall& call) {
    if (call.operation != DiskOperation::rename || call.target != folder_ / "made") return 0;
    risk.clear();
    for (const auto& entry : fs::recursive_directory_iterator(call.path)) {
      if (entry.is_regular_file()) risk += recorded->risk_of_replaced(entry.path());
    }
    EXPECT_TRUE(fs::exists(call.path / "model.onnx"));
    recorded->forget();  // what follows counts
    return 0;
  });
  recorded = &disk;
  (void)import_model(from, folder_ / "made");
  EXPECT_EQ(risk, "");
  EXPECT_TRUE(disk.has_synced_names(folder_));
}

// Dynamic quantization scales by all that a run holds: a text that shares one has other bits than alone.
TEST_F(ImportEncoder, SharesNoRunWhereThatChangesBits) {
  (void)import_model(fs::path(GPUX_SOURCE_DIR) / "tests/embedding/references/bert-cls", folder_ / "made");
  checkpoint::SentenceModel model = checkpoint::read_sentence_model(folder_ / "made");
  const fs::path quantized = folder_ / "int8.onnx";
  onnx::quantize(model.onnx_file, {}).write(quantized);
  Runtime runtime(quantized, {.intra_threads = 1});
  const embedding::TextEmbedder embedder(std::move(model), std::move(runtime));
  const embedding::TextSharing batching = embedder.batching(true);
  EXPECT_EQ(batching.limits.max_rows, 1);
  EXPECT_FALSE(batching.sharing.shared);
  EXPECT_EQ(batching.sharing.reason, "vectors were not bit-identical together and alone");
}

TEST_F(ImportEncoder, RefusesSettingsThatMakeAnotherComputation) {
  const fs::path from = source("bert");
  const json whole = json::parse(read_file(from / "config.json"));
  for (const auto& [key, value, says] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"is_decoder", "true", "is_decoder true is not served; accepted: false, an encoder"},
           {"is_decoder", "\"yes\"", "is_decoder \"yes\" is not served"},
           {"add_cross_attention", "true", "add_cross_attention true is not served"},
           {"is_encoder_decoder", "true", "is_encoder_decoder true is not served"},
           {"position_embedding_type", "\"relative_key\"", "position_embedding_type \"relative_key\" is not served"},
           {"position_embedding_type", "3", "position_embedding_type 3 is not served; accepted: a text"},
           {"hidden_act", "{\"a\": 1}", "hidden_act {\"a\":1} is not served; accepted: a text"},
           {"layer_norm_eps", "\"1e-5\"", "layer_norm_eps \"1e-5\" is not served; accepted: a number above 0"},
           {"layer_norm_eps", "-1", "layer_norm_eps -1 is not served"},
           {"type_vocab_size", "2.5", "type_vocab_size 2.5 is not served; accepted: a whole number"},
           {"pad_token_id", "-1", "pad_token_id -1 is not served"},
           {"pruned_heads", "{\"0\": [1]}", "pruned_heads {\"0\":[1]} is not served"},
           {"quantization_config", "{}", "quantization_config {} is not served"},
           {"auto_map", "{\"AutoModel\": \"modeling.Custom\"}", "auto_map.AutoModel \"modeling.Custom\" is not served"},
       }) {
    SCOPED_TRACE(key);
    json changed = whole;
    changed[key] = json::parse(value);
    write(from / "config.json", changed.dump());
    const Error error = failure(from);
    EXPECT_EQ(error.code(), ErrorCode::invalid_config) << error.message();
    EXPECT_THAT(error.message(), HasSubstr("config.json: " + says));
  }
  json harmless = whole;
  harmless.update({{"is_decoder", false},
                   {"add_cross_attention", false},
                   {"pruned_heads", json::object()},
                   {"position_embedding_type", "absolute"},
                   {"auto_map", {{"AutoConfig", "a.B"}}},
                   {"use_cache", true},
                   {"hidden_dropout_prob", 0.1},
                   {"layer_norm_eps", nullptr}});
  write(from / "config.json", harmless.dump());
  EXPECT_NO_THROW((void)import_model(from, folder_ / "made"));
}

TEST_F(ImportEncoder, RefusesWeightsOfAnotherComputation) {
  const fs::path from = source("bert");
  const std::string whole = read_file(from / "model.safetensors");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, whole.data(), sizeof header_bytes);
  const json header = json::parse(whole.substr(8, header_bytes));
  const std::string data = whole.substr(8 + header_bytes);
  const auto with = [&](const std::string& name) {
    json more = header;
    more[name] = {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {0, 4}}};
    std::ofstream(from / "model.safetensors", std::ios::binary) << with_header(more.dump(), data);
  };
  for (const char* name : {"encoder.layer.0.crossattention.self.query.weight",
                           "encoder.layer.1.attention.self.distance_embedding.weight", "embeddings.adapter.weight"}) {
    with(name);
    const Error error = failure(from);
    EXPECT_EQ(error.code(), ErrorCode::invalid_model);
    EXPECT_THAT(error.message(), HasSubstr(std::string("have a tensor '") + name + "', which a bert"));
  }
  for (const char* name : {"pooler.dense.weight", "embeddings.position_ids", "cls.predictions.bias",
                           "encoder.layer.2.output.dense.weight"}) {
    with(name);
    EXPECT_NO_THROW((void)import_model(from, folder_ / name)) << name;
  }
}

TEST_F(ImportEncoder, RefusesWhatItCannotServe) {
  struct Case {
    const char* config;
    ErrorCode code;
    const char* says;
  };

  const std::vector<Case> cases{
      {R"({"model_type": "gpt2"})", ErrorCode::invalid_config, "model_type 'gpt2' is not served; bert,"},
      {R"({})", ErrorCode::invalid_config, "model_type ''"},
      {R"([])", ErrorCode::invalid_model, "config.json"},
      {R"({"model_type": "bert"})", ErrorCode::invalid_config, "says no num_hidden_layers"},
      {R"({"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 16,
           "intermediate_size": 32, "vocab_size": 40, "max_position_embeddings": 24})",
       ErrorCode::invalid_config, "do not make an encoder"},
      {R"({"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16,
           "intermediate_size": 32, "vocab_size": 40, "max_position_embeddings": 24, "hidden_act": "softplus"})",
       ErrorCode::invalid_config, "config.json: hidden_act \"softplus\" is not served; accepted: gelu, gelu_new"},
      {R"({"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16,
           "intermediate_size": 32, "vocab_size": 40, "max_position_embeddings": 24,
           "position_embedding_type": "relative_key"})",
       ErrorCode::invalid_config, "position_embedding_type"},
      {R"({"model_type": "bert", "num_hidden_layers": 3, "num_attention_heads": 2, "hidden_size": 16,
           "intermediate_size": 32, "vocab_size": 40, "max_position_embeddings": 24, "layer_norm_eps": 1e-5})",
       ErrorCode::invalid_model, "has no tensor 'encoder.layer.2."},
      {R"({"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16,
           "intermediate_size": 32, "vocab_size": 41, "max_position_embeddings": 24})",
       ErrorCode::invalid_model, "embeddings.word_embeddings.weight' has the sizes [40, 16], and [41, 16]"},
  };
  const fs::path from = source("bert");
  for (const Case& one : cases) {
    SCOPED_TRACE(one.config);
    write(from / "config.json", one.config);
    const Error error = failure(from);
    EXPECT_EQ(error.code(), one.code) << error.message();
    EXPECT_THAT(error.message(), HasSubstr(one.says));
  }
}

TEST_F(ImportEncoder, ReadsWeightsInSeveralFiles) {
  const fs::path whole = source("bert");
  (void)import_model(whole, folder_ / "whole");
  const std::string file = read_file(whole / "model.safetensors");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const std::string data = file.substr(8 + header_bytes);
  const json header = json::parse(file.substr(8, header_bytes));
  json parts[2];
  json map = json::object();
  int next = 0;
  for (const auto& [name, entry] : header.items()) {
    parts[next % 2][name] = entry;
    map[name] = "part-" + std::to_string(next % 2) + ".safetensors";
    ++next;
  }
  fs::remove(whole / "model.safetensors");
  write(whole / "part-0.safetensors", with_header(parts[0].dump(), data));
  write(whole / "part-1.safetensors", with_header(parts[1].dump(), data));
  write(whole / "model.safetensors.index.json", json{{"metadata", {}}, {"weight_map", map}}.dump());
  (void)import_model(whole, folder_ / "parts");
  EXPECT_EQ(read_file(folder_ / "parts/model.onnx"), read_file(folder_ / "whole/model.onnx"));

  for (const auto& [index, says] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "model.safetensors.index.json is no JSON object"},
           {"{", "model.safetensors.index.json is no JSON object"},
           {"{}", "no weight_map"},
           {R"({"weight_map": ["part-0.safetensors"]})", "no weight_map"},
           {R"({"weight_map": {"a": 3}})", "'a' is in 3"},
           {R"({"weight_map": {"a": "../part-0.safetensors"}})", "'a' is in \"../part-0.safetensors\""},
           {R"({"weight_map": {"a": "part-2.safetensors"}})", "part-2.safetensors"},
           {R"({"weight_map": {"a": "part-0.safetensors"}})", "has no tensor"}}) {
    write(whole / "model.safetensors.index.json", index);
    EXPECT_THAT(failure(whole).message(), HasSubstr(says)) << index;
  }
}

TEST_F(ImportEncoder, RefusesDamagedWeights) {
  const fs::path from = source("bert");
  const std::string whole = read_file(from / "model.safetensors");
  const std::string data(16, '\0');
  const std::vector<std::string> damaged{
      "",
      whole.substr(0, 7),
      whole.substr(0, 100),
      std::string(8, '\xff') + "{}",
      with_header("[]", data),
      with_header("{", data),
      with_header(R"({"a": {}})", data),
      with_header(R"({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 17]}})", data),
      with_header(R"({"a": {"dtype": "F32", "shape": [4], "data_offsets": [8, 4]}})", data),
      with_header(R"({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 16]}})", data),
      with_header(R"({"a": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}})", data),
      with_header(R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 16]}})", data),
      whole.substr(0, whole.size() - 4),
  };
  for (const std::string& bytes : damaged) {
    SCOPED_TRACE(bytes.substr(0, 90));
    std::ofstream(from / "model.safetensors", std::ios::binary) << bytes;
    const Error error = failure(from);
    EXPECT_EQ(error.code(), ErrorCode::invalid_model) << error.message();
    EXPECT_THAT(error.message(), HasSubstr("model.safetensors"));
  }
}

// nlohmann's dump() and copies recurse once a level.
TEST_F(ImportEncoder, RefusesJsonThatIsNestedTooDeeply) {
  constexpr std::size_t levels = 100'000;
  const std::string deep = std::string(levels, '[') + std::string(levels, ']');
  const fs::path from = source("bert");
  write(from / "sentence_bert_config.json", "{}");
  write(from / "tokenizer_config.json", "{}");
  write(from / "config_sentence_transformers.json", "{}");
  for (const char* name :
       {"config.json", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json", "tokenizer_config.json",
        "config_sentence_transformers.json", "model.safetensors", "model.safetensors.index.json"}) {
    SCOPED_TRACE(name);
    const std::string whole = fs::exists(from / name) ? read_file(from / name) : "";
    const std::string weights = read_file(from / "model.safetensors");
    const std::string_view file = name;
    if (file.ends_with("index.json")) fs::remove(from / "model.safetensors");
    const std::string object = R"({"weight_map": {"a": )" + deep + "}}";
    write(from / file, file == "modules.json" ? deep : file == "model.safetensors" ? with_header(object, "") : object);
    const Error error = failure(from);
    EXPECT_THAT(error.message(), HasSubstr("nested deeper than 32 levels"));
    EXPECT_THAT(error.message(), HasSubstr(name));
    fs::remove(from / name);
    if (!whole.empty()) write(from / name, whole);
    write(from / "model.safetensors", weights);
  }
}

TEST_F(ImportEncoder, RefusesFoldersThatAreNone) {
  EXPECT_EQ(failure(folder_ / "none").code(), ErrorCode::not_found);
  const fs::path from = source("bert");
  fs::remove(from / "tokenizer.json");
  EXPECT_THAT(failure(from).message(), HasSubstr("no tokenizer.json"));
  fs::remove(from / "model.safetensors");
  EXPECT_THAT(failure(from).message(), HasSubstr("no model.safetensors"));
  write(from / "pytorch_model.bin", "x");
  EXPECT_THAT(failure(from).message(), HasSubstr("pytorch_model.bin"));
  write(from / "model.onnx", "x");
  EXPECT_THAT(failure(from).message(), HasSubstr("holds model.onnx already"));
  const fs::path again = source("distilbert");
  write(folder_ / "used/file", "x");
  try {
    (void)import_model(again, folder_ / "used");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
  }
  EXPECT_EQ(read_file(folder_ / "used/file"), "x");
}

}  // namespace
}  // namespace gpux::importer
