#include "embedding/import_encoder.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/files.h"
#include "embedding/embedder.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "onnx/encoder_graph.h"

namespace gpux::embedding {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;

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
      (void)import_encoder(from, folder_ / "made");
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
  const onnx::Safetensors weights(folder / "model.safetensors");
  const onnx::EncoderConfig config = onnx::read_encoder_config(read_file(folder / "config.json"));
  const json answers = json::parse(read_file(folder / "answers.json"));
  const fs::path file = fs::temp_directory_path() / ("gpux-family-" + std::to_string(getpid()) + ".onnx");

  struct Case {
    onnx::EncoderHead head;
    const char* answer;
  };

  const std::vector<Case> cases{{{}, nullptr},
                                {{.pooling = onnx::GraphPooling::mean, .normalize = false}, "mean"},
                                {{.pooling = onnx::GraphPooling::mean, .normalize = true}, "normalized_mean"},
                                {{.pooling = onnx::GraphPooling::cls, .normalize = false}, "cls"},
                                {{.pooling = onnx::GraphPooling::max, .normalize = false}, "max"}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.answer == nullptr ? "no pooling" : one.answer);
    onnx::write_encoder(weights, config, one.head, file);
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
  const ImportedEncoder imported = import_encoder(source("bert"), folder_ / "made");
  EXPECT_EQ(imported.family, "bert");
  EXPECT_EQ(imported.layers, 2);
  EXPECT_EQ(imported.pooling, "mean");
  EXPECT_TRUE(imported.normalize);
  EXPECT_THAT(imported.copied, Contains("1_Pooling/config.json"));
  SentenceModel model = read_sentence_model(folder_ / "made");
  EXPECT_EQ(model.max_tokens, 24U);
  Runtime runtime(model.onnx_file, {.intra_threads = 1});
  const Embedder embedder(std::move(model), std::move(runtime));
  const std::vector<float> vector = embedder.embed("");  // [CLS] [SEP]
  ASSERT_EQ(vector.size(), 16U);
  double length = 0;
  for (const float value : vector) length += static_cast<double>(value) * value;
  EXPECT_NEAR(length, 1, 1e-5);
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
           "intermediate_size": 32, "vocab_size": 40, "max_position_embeddings": 24, "hidden_act": "silu"})",
       ErrorCode::invalid_config, "activation 'silu' is not served"},
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

/// A file of weights whose header is this.
std::string with_header(const std::string& header, const std::string& data) {
  std::string file(8, '\0');
  const std::uint64_t size = header.size();
  std::memcpy(file.data(), &size, sizeof size);
  return file + header + data;
}

TEST_F(ImportEncoder, ReadsWeightsInSeveralFiles) {
  const fs::path whole = source("bert");
  (void)import_encoder(whole, folder_ / "whole");
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
  (void)import_encoder(whole, folder_ / "parts");
  EXPECT_EQ(read_file(folder_ / "parts/model.onnx"), read_file(folder_ / "whole/model.onnx"));

  for (const auto& [index, says] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "no weight_map"},
           {"{", "no weight_map"},
           {R"({"weight_map": ["part-0.safetensors"]})", "no weight_map"},
           {R"({"weight_map": {"a": 3}})", "'a' lies in 3"},
           {R"({"weight_map": {"a": "../part-0.safetensors"}})", "'a' lies in \"../part-0.safetensors\""},
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
    (void)import_encoder(again, folder_ / "used");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
  }
  EXPECT_EQ(read_file(folder_ / "used/file"), "x");
}

}  // namespace
}  // namespace gpux::embedding
