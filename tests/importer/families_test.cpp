#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "checkpoint/safetensors.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "importer/encoder_graph.h"
#include "importer/families/family.h"
#include "importer/families/rotary_settings.h"
#include "importer/graph/disentangled.h"
#include "importer/graph/position_bias.h"
#include "onnx/half.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

// What transformers gives, by scripts/references/family-references --write-tests.
const fs::path references = GPUX_SOURCE_DIR "/tests/importer/families";
const fs::path head_references = GPUX_SOURCE_DIR "/tests/importer/classifiers";

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Tensor tensor_of(const std::vector<std::vector<std::int64_t>>& rows) {
  Tensor tensor = Tensor::allocate(
      ElementType::int64, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows.front().size())});
  auto target = tensor.mutable_as<std::int64_t>().begin();
  for (const auto& row : rows) target = std::copy(row.begin(), row.end(), target);
  return tensor;
}

using Rows = std::vector<std::vector<std::int64_t>>;

// Tokens and mask, token types of 0 and the adapters of the answers where the model has such an input.
NamedValues inputs_of(const Rows& ids, const Rows& mask, const Signature& signature, const json& answers = {}) {
  NamedValues inputs;
  for (const SignatureEntry& entry : signature.inputs) {
    if (entry.name == "adapter_id") {
      const auto adapters = answers.at(entry.name).get<std::vector<std::int64_t>>();
      inputs.emplace_back(entry.name, Tensor::of<std::int64_t>({static_cast<std::int64_t>(adapters.size())}, adapters));
      continue;
    }
    Rows rows = entry.name == "attention_mask" ? mask : ids;
    if (entry.name == "token_type_ids") {
      for (auto& row : rows) std::fill(row.begin(), row.end(), 0);
    }
    inputs.emplace_back(entry.name, tensor_of(rows));
  }
  return inputs;
}

Architecture architecture_in(const fs::path& folder, const checkpoint::Safetensors& weights) {
  return describe_architecture(checkpoint::ConfigReader(read_file(folder / "config.json")), weights);
}

// The tokens of each row moved behind its padding.
void pad_left(Rows& ids, Rows& mask) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto tokens = std::count(mask[i].begin(), mask[i].end(), 1);
    std::rotate(ids[i].begin(), ids[i].begin() + tokens, ids[i].end());
    std::rotate(mask[i].begin(), mask[i].begin() + tokens, mask[i].end());
  }
}

class Family : public testing::TestWithParam<std::string> {
 protected:
  test::TemporaryFolder folder_;
};

TEST_P(Family, EqualsTransformers) {
  const fs::path source = references / GetParam();
  const checkpoint::Safetensors weights(source / "model.safetensors");
  const Architecture architecture = architecture_in(source, weights);
  const json answers = json::parse(read_file(source / "answers.json"));
  const fs::path file = folder_.path() / "model.onnx";
  write_encoder(weights, architecture, {.pooling = GraphPooling::last_token}, file);
  const Runtime runtime(file, {.provider = "cpu"});
  const bool counts_positions = !architecture.embeddings.positions.empty();
  for (const bool is_left : {false, true}) {
    if (is_left && counts_positions) continue;  // learned positions are those of the padded row
    SCOPED_TRACE(is_left ? "padding on the left" : "padding on the right");
    Rows ids = answers["input_ids"].get<Rows>(), mask = answers["attention_mask"].get<Rows>();
    if (is_left) pad_left(ids, mask);
    const NamedValues outputs = runtime.infer(inputs_of(ids, mask, runtime.info().signature, answers));
    ASSERT_EQ(outputs.size(), 2U);
    EXPECT_EQ(outputs.front().first, "sentence_embedding");
    const auto last = outputs.front().second.tensor()->as<float>();
    const auto hidden = outputs.back().second.tensor()->as<float>();
    const auto size = static_cast<std::size_t>(architecture.transformer.hidden_size);
    for (std::size_t row = 0; row < ids.size(); ++row) {
      const json& expected = answers["tokens"][row];
      const std::size_t first = is_left ? ids[row].size() - expected.size() : 0;
      for (std::size_t token = 0; token < expected.size(); ++token) {
        for (std::size_t i = 0; i < size; ++i) {
          ASSERT_NEAR(hidden[(row * ids[row].size() + first + token) * size + i], expected[token][i].get<double>(),
                      2e-4)
              << "row " << row << ", token " << token << ", element " << i;
        }
      }
      for (std::size_t i = 0; i < size; ++i) {
        ASSERT_NEAR(last[row * size + i], expected.back()[i].get<double>(), 2e-4) << "last token of row " << row;
      }
    }
  }
}

TEST_P(Family, LoadsAndIsNearInFloat16) {
  const fs::path source = references / GetParam();
  const checkpoint::Safetensors weights(source / "model.safetensors");
  const fs::path file = folder_.path() / "model.onnx";
  write_encoder(weights, architecture_in(source, weights), {.pooling = GraphPooling::mean}, file);
  const fs::path halved = folder_.path() / "half.onnx";
  onnx::to_float16(file, {}).write(halved);
  const json answers = json::parse(read_file(source / "answers.json"));
  const auto vectors_of = [&](const fs::path& model) {
    const Runtime runtime(model, {.provider = "cpu"});
    const NamedValues outputs = runtime.infer(inputs_of(
        answers["input_ids"].get<Rows>(), answers["attention_mask"].get<Rows>(), runtime.info().signature, answers));
    const auto numbers = outputs.front().second.tensor()->as<float>();
    return std::vector<float>(numbers.begin(), numbers.end());
  };
  const std::vector<float> expected = vectors_of(file), met = vectors_of(halved);
  ASSERT_EQ(met.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(met[i], expected[i], 0.02) << i;
}

INSTANTIATE_TEST_SUITE_P(Encoders, Family, testing::ValuesIn(names_in(references)), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

class FamilyHead : public Family {};

TEST_P(FamilyHead, EqualsTransformers) {
  const fs::path source = head_references / GetParam();
  const checkpoint::Safetensors weights(source / "model.safetensors");
  const Architecture architecture = architecture_in(source, weights);
  EXPECT_NE(architecture.head.kind, HeadKind::vectors);
  const json answers = json::parse(read_file(source / "answers.json"));
  const fs::path file = folder_.path() / "model.onnx";
  write_encoder(weights, architecture, {}, file);
  const Runtime runtime(file, {.provider = "cpu"});
  const Rows mask = answers["attention_mask"].get<Rows>();
  const NamedValues outputs =
      runtime.infer(inputs_of(answers["input_ids"].get<Rows>(), mask, runtime.info().signature));
  for (const auto& [name, value] : outputs) {
    const Tensor& tensor = *value.tensor();
    const json& expected = answers.at(name);
    const auto numbers = tensor.as<float>();
    const bool is_of_tokens = tensor.shape().size() == 3 || name != "logits";
    const std::size_t columns = expected[0].size();
    for (std::size_t row = 0; row < expected.size(); ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        const json& cell = expected[row][column];
        if (is_of_tokens && mask[row][column] == 0) continue;
        if (!cell.is_array()) {
          EXPECT_NEAR(numbers[row * columns + column], cell.get<double>(), 2e-4) << name << row << column;
          continue;
        }
        for (std::size_t i = 0; i < cell.size(); ++i) {
          EXPECT_NEAR(numbers[(row * columns + column) * cell.size() + i], cell[i].get<double>(), 2e-4)
              << name << row << column;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, FamilyHead, testing::ValuesIn(names_in(head_references)), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Families, EachHasAReference) {
  // tests/embedding/data; "new" is GTE under the name of its repository
  std::set<std::string> tested{"bert", "roberta", "xlm-roberta", "camembert", "distilbert", "mpnet", "new"};
  for (const std::string& name : names_in(references)) {
    tested.insert(json::parse(read_file(references / name / "config.json"))["model_type"].get<std::string>());
  }
  for (const gpux::importer::Family& family : families()) {
    EXPECT_TRUE(tested.contains(std::string(family.model_type))) << family.model_type;
  }
}

TEST(Families, RefuseSettingsOfAnotherComputation) {
  struct Case {
    const char* family;
    const char* key;
    const char* value;
    const char* says;
  };

  for (const Case& one : std::vector<Case>{
           {"deberta-v3", "conv_kernel_size", "3", "conv_kernel_size 3 is not served; accepted: 0"},
           {"deberta-v3", "embedding_size", "8", "embedding_size 8 is not served"},
           {"deberta-v3", "position_buckets", "64", "position_buckets 64 is not served"},
           {"modernbert", "layer_types", "[\"full_attention\"]", "layer_types"},
           {"modernbert", "layer_types", "[\"full_attention\", \"linear_attention\"]",
            "layer_types \"linear_attention\""},
           {"modernbert", "auto_map", "{\"AutoModel\": \"a.B\"}", "auto_map.AutoModel"},
           {"qwen2", "auto_map", "{\"AutoModel\": \"modeling_qwen.Qwen2Model\"}", "is_causal null is not served"},
           {"qwen3", "num_key_value_heads", "3", "2 heads with 3 key and value heads"},
           {"qwen3", "rope_parameters", "{\"rope_type\": \"longrope\"}", "rope_parameters.rope_type \"longrope\""},
           {"qwen3", "rope_parameters", "{\"rope_type\": \"linear\"}", "says no rope_parameters.factor"},
           {"qwen3", "hidden_act", "\"softplus\"", "hidden_act \"softplus\""},
           {"gemma3", "attn_logit_softcapping", "50.0", "attn_logit_softcapping 50.0 is not served"},
           {"nomic-bert", "num_experts", "8", "num_experts 8 is not served"},
           {"nomic-bert", "rotary_emb_interleaved", "true", "rotary_emb_interleaved true is not served"},
           {"nomic-bert", "rotary_emb_fraction", "0.5", "rotary_emb_fraction 0.5 is not served"},
           {"gte", "logn_attention_scale", "true", "logn_attention_scale true is not served"},
           {"gte", "layer_norm_type", "\"rms_norm\"", "layer_norm_type \"rms_norm\" is not served"},
           {"albert", "inner_group_num", "2", "inner_group_num 2 is not served"},
           {"t5", "feed_forward_proj", "\"gated-relu\"", "feed_forward_proj \"gated-relu\" is not served"},
           {"jina-v2", "feed_forward_type", "\"original\"", "feed_forward_type \"original\" is not served"},
           {"electra", "position_embedding_type", "\"relative_key\"", "position_embedding_type"},
           {"llama", "quantization_config", "{}", "quantization_config {} is not served"},
       }) {
    SCOPED_TRACE(std::string(one.family) + " " + one.key);
    const fs::path folder = references / one.family;
    const checkpoint::Safetensors weights(folder / "model.safetensors");
    json config = json::parse(read_file(folder / "config.json"));
    config[one.key] = json::parse(one.value);
    try {
      (void)describe_architecture(checkpoint::ConfigReader(config.dump()), weights);
      ADD_FAILURE() << "it was described";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      EXPECT_THAT(error.message(), HasSubstr(one.says));
    }
  }
}

TEST(Families, RefuseAdaptersThatAreNotMerged) {
  const checkpoint::Safetensors weights(references / "jina-v3/model.safetensors");
  json config = json::parse(read_file(references / "jina-v3/config.json"));
  config.update(
      {{"model_type", "xlm-roberta"},
       {"position_embedding_type", "rotary"},
       {"auto_map", {{"AutoModel", "jinaai/xlm-roberta-flash-implementation--modeling_lora.XLMRobertaLoRA"}}}});
  EXPECT_NO_THROW((void)describe_architecture(checkpoint::ConfigReader(config.dump()), weights));
  config["lora_adaptations"] = {"retrieval.query"};
  EXPECT_THROW((void)describe_architecture(checkpoint::ConfigReader(config.dump()), weights), Error);
}

// The code of published repositories computes what transformers' class of the same name does.
TEST(FamilySettings, TakesGteWithTheCodeOfItsRepository) {
  const checkpoint::Safetensors weights(references / "gte/model.safetensors");
  json config = json::parse(read_file(references / "gte/config.json"));
  for (const char* model_type : {"gte", "new"}) {
    config["model_type"] = model_type;
    config["auto_map"] = {{"AutoConfig", "configuration_hf_alibaba_nlp_gte.GteConfig"},
                          {"AutoModel", "modeling_hf_alibaba_nlp_gte.GteModel"}};
    EXPECT_NO_THROW((void)describe_architecture(checkpoint::ConfigReader(config.dump()), weights)) << model_type;
  }
}

TEST(FamilySettings, RefusesAdaptersThatAreNotThoseOfTheWeights) {
  const checkpoint::Safetensors weights(references / "jina-v3-adapters/model.safetensors");
  const json config = json::parse(read_file(references / "jina-v3-adapters/config.json"));

  struct Case {
    const char* name;
    json value;
    const char* message;
  };

  const std::vector<Case> cases{{"lora_adaptations", json::array(), "lora_adaptations"},
                                {"lora_adaptations", json("retrieval.query"), "lora_adaptations"},
                                {"lora_adaptations", {"a", "b", "c"}, "lora_A"},
                                {"lora_adaptations", nullptr, "word_embeddings"},
                                {"lora_rank", 3, "lora_A"},
                                {"lora_rank", 0, "lora_rank"},
                                {"lora_alpha", 0, "lora_alpha"},
                                {"type_vocab_size", 2, "type_vocab_size"}};
  for (const auto& [name, value, message] : cases) {
    SCOPED_TRACE(std::string(name) + " " + value.dump());
    json other = config;
    other[name] = value;
    try {
      write_encoder(weights, describe_architecture(checkpoint::ConfigReader(other.dump()), weights), {}, {});
      ADD_FAILURE() << "it was accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr(message));
    }
  }
}

// A model beyond the limit has its weights in a file beside it, and gives the same.
TEST(EncoderGraph, WritesLargeWeightsBesideTheModel) {
  const test::TemporaryFolder folder;
  const std::vector<float> numbers{1, 2, 3, 4};
  const auto write = [&](const fs::path& file, std::uint64_t max_bytes) {
    onnx::GraphWriter graph("sum");
    const std::array<onnx::WrittenSize, 1> sizes{std::int64_t{4}};
    graph.input("x", ElementType::float32, sizes);
    graph.output("y", ElementType::float32, sizes);
    const std::string first = graph.floats("first", {4}, [&] { return numbers; });
    const std::string second = graph.floats("second", {4}, [&] { return numbers; });
    const std::string sum = graph.node("Add", {"x", first});
    (void)graph.node("Add", {sum, second}, {}, "y");
    graph.write(file, 20, 9, max_bytes);
  };
  write(folder.path() / "inside.onnx", onnx::GraphWriter::max_model_bytes);
  write(folder.path() / "beside.onnx", 100);
  EXPECT_FALSE(fs::exists(folder.path() / "inside.onnx_data"));
  EXPECT_EQ(fs::file_size(folder.path() / "beside.onnx_data"), 4096U + 16U);
  for (const char* name : {"inside.onnx", "beside.onnx"}) {
    const Runtime runtime(folder.path() / name, {.provider = "cpu"});
    Tensor input = Tensor::allocate(ElementType::float32, {4});
    std::fill_n(input.mutable_as<float>().begin(), 4, 10.0F);
    NamedValues inputs;
    inputs.emplace_back("x", std::move(input));
    const NamedValues outputs = runtime.infer(inputs);
    EXPECT_THAT(outputs.front().second.tensor()->as<float>(), testing::ElementsAre(12, 14, 16, 18)) << name;
  }
}

TEST(PositionBias, BucketsOfDistances) {
  // transformers' T5Attention._relative_position_bucket, 32 buckets up to 128
  for (const auto& [relative, bucket] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 0}, {-1, 1}, {1, 17}, {-7, 7}, {-8, 8}, {8, 24}, {-12, 9}, {-127, 15}, {-128, 15}, {5000, 31}}) {
    EXPECT_EQ(relative_bucket(relative, 32, 128), bucket) << relative;
  }
}

TEST(Disentangled, RowsOfDistances) {
  // transformers' make_log_bucket_position with 256 buckets and 512 positions, plus 256
  const Disentangled logarithmic{.span = 256, .buckets = 256, .max_positions = 512};
  for (const auto& [relative, row] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 256}, {128, 384}, {-128, 128}, {511, 511}, {512, 511}, {-512, 0}, {-511, 1}, {9999, 511}}) {
    EXPECT_EQ(disentangled_row(relative, logarithmic), row) << relative;
  }
  const Disentangled clipped{.span = 16, .max_positions = 16};
  EXPECT_EQ(disentangled_row(20, clipped), 31);
  EXPECT_EQ(disentangled_row(-20, clipped), 0);
  EXPECT_EQ(disentangled_row(3, clipped), 19);
}

TEST(Rotary, NtkScalesAllFrequencies) {
  const checkpoint::ConfigReader config(R"({"rope_theta": 10000, "rope_scaling": {"type": "ntk", "factor": 2.0}})");
  const Rotary rotary = read_rotary(config, {.theta = 10000, .head_size = 4, .max_positions = 8});
  ASSERT_EQ(rotary.frequencies.size(), 2U);
  EXPECT_NEAR(rotary.frequencies[0], 1 / std::sqrt(2.0), 1e-6);
  EXPECT_NEAR(rotary.frequencies[1], 1 / std::sqrt(20000.0) / std::sqrt(2.0), 1e-7);
}

}  // namespace
}  // namespace gpux::importer
