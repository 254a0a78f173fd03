// What gpux imports, with ONNX Runtime's fused operators and without: both give the same on the CPU.
#include "onnx/fused_attention.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "checkpoint/safetensors.h"
#include "gpux/model_inspector.h"
#include "importer/encoder_graph.h"
#include "importer/families/family.h"
#include "importer/import_model.h"
#include "runtime/cpu_runtime.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;

const fs::path tests = GPUX_SOURCE_DIR "/tests";

/// A model that is imported, and what is fused in it.
struct Case {
  const char* folder;
  std::map<std::string, std::size_t> operators;
  const char* file = "model.onnx";
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.folder << ' ' << one.file;
}

std::int64_t size_of(const Dimension& dimension) {
  if (dimension.size) return *dimension.size;
  if (dimension.name == "batch") return 2;
  if (dimension.name == "past_sequence") return 0;
  return 5;
}

// The second text is shorter, and padded behind.
Tensor made_input(const SignatureEntry& entry) {
  Shape shape;
  for (const Dimension& dimension : *entry.type.dimensions) shape.push_back(size_of(dimension));
  Tensor tensor = Tensor::allocate(entry.type.element, shape);
  std::int64_t count = 0;
  if (entry.type.element == ElementType::float32) {
    for (float& element : tensor.mutable_as<float>()) element = std::sin(static_cast<float>(++count) * 0.7F);
    return tensor;
  }
  for (std::int64_t& element : tensor.mutable_as<std::int64_t>()) {
    const std::int64_t token = count++;
    element = entry.name == "attention_mask" ? (token < 8 ? 1 : 0) : entry.name == "input_ids" ? 3 + token % 7 : 0;
  }
  return tensor;
}

std::vector<std::vector<float>> results_of(const fs::path& model) {
  const Runtime runtime(model, {.provider = "cpu"});
  NamedValues inputs;
  for (const SignatureEntry& entry : runtime.info().signature.inputs) {
    inputs.emplace_back(entry.name, made_input(entry));
  }
  std::vector<std::vector<float>> results;
  for (const auto& [name, value] : runtime.infer(inputs)) {
    const auto elements = value.tensor()->as<float>();
    results.emplace_back(elements.begin(), elements.end());
  }
  return results;
}

class FusedAttention : public CpuRuntime, public testing::WithParamInterface<Case> {
 protected:
  fs::path plain() {
    const fs::path source = tests / GetParam().folder, made = folder_.path() / "made";
    if (fs::exists(source / "preprocessor_config.json") || fs::exists(source / "tokenizer.json")) {
      import_model(source, made, {});
      return made / GetParam().file;
    }
    const checkpoint::Safetensors weights(source / "model.safetensors");
    const Architecture architecture =
        describe_architecture(checkpoint::ConfigReader(read_file(source / "config.json")), weights);
    write_encoder(weights, architecture, {.pooling = GraphPooling::mean}, folder_.path() / "model.onnx");
    return folder_.path() / "model.onnx";
  }

  test::TemporaryFolder folder_;
};

TEST_P(FusedAttention, ComputesTheSameAsTheUnfusedGraph) {
  const fs::path model = plain();
  const auto fused = onnx::with_fused_attention(read_file(model));
  ASSERT_TRUE(fused.has_value());
  EXPECT_EQ(fused->operators, GetParam().operators);
  const fs::path file = model.parent_path() / "fused.onnx";
  folder_.write(file.lexically_relative(folder_.path()).string(), fused->content);
  const auto expected = results_of(model), met = results_of(file);
  ASSERT_EQ(met.size(), expected.size());
  for (std::size_t i = 0; i < met.size(); ++i) {
    ASSERT_EQ(met[i].size(), expected[i].size());
    for (std::size_t j = 0; j < met[i].size(); ++j) ASSERT_NEAR(met[i][j], expected[i][j], 1e-5) << i << ", " << j;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Imported, FusedAttention,
    testing::Values(
        Case{"embedding/data/bert", {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 4}}},
        Case{"embedding/data/distilbert", {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 4}}},
        Case{"embedding/data/mpnet", {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 4}}},
        Case{"embedding/data/xlm-roberta", {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 5}}},
        Case{"importer/families/albert", {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 4}}},
        Case{"importer/families/deberta-v2-own-keys", {{"SkipLayerNormalization", 1}}},
        Case{"importer/families/deberta-v3", {{"SkipLayerNormalization", 2}}},
        Case{"importer/families/eurobert",
             {{"MultiHeadAttention", 2}, {"SimplifiedLayerNormalization", 1}, {"SkipSimplifiedLayerNormalization", 4}}},
        Case{"importer/families/gemma3",
             {{"MultiHeadAttention", 2}, {"SimplifiedLayerNormalization", 9}, {"SkipSimplifiedLayerNormalization", 4}}},
        Case{"importer/families/gemma3-causal",
             {{"MultiHeadAttention", 1}, {"SimplifiedLayerNormalization", 5}, {"SkipSimplifiedLayerNormalization", 2}}},
        Case{"importer/families/gte", {{"MultiHeadAttention", 1}, {"SkipLayerNormalization", 2}}},
        Case{"importer/families/jina-v2", {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 5}}},
        Case{"importer/families/jina-v3", {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 4}}},
        Case{"importer/families/jina-v3-adapters", {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 4}}},
        Case{"importer/families/modernbert", {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 4}}},
        Case{"importer/families/mt5",
             {{"MultiHeadAttention", 2}, {"SimplifiedLayerNormalization", 1}, {"SkipSimplifiedLayerNormalization", 4}}},
        Case{"importer/families/nomic-bert", {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 5}}},
        Case{"importer/families/qwen2",
             {{"MultiHeadAttention", 2}, {"SimplifiedLayerNormalization", 1}, {"SkipSimplifiedLayerNormalization", 4}}},
        Case{"importer/families/qwen3",
             {{"MultiHeadAttention", 2}, {"SimplifiedLayerNormalization", 5}, {"SkipSimplifiedLayerNormalization", 4}}},
        Case{"importer/families/t5",
             {{"MultiHeadAttention", 2}, {"SimplifiedLayerNormalization", 1}, {"SkipSimplifiedLayerNormalization", 4}}},
        Case{"importer/images/dinov2-base", {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 4}}},
        Case{"importer/images/dinov2-classifier", {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 4}}},
        Case{"importer/images/vit-base-patch16", {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 4}}},
        Case{"generation/references/gemma2", {{"SkipSimplifiedLayerNormalization", 4}}},
        Case{"generation/references/gemma3", {{"SkipSimplifiedLayerNormalization", 12}}},
        Case{"generation/references/gpt2", {{"SkipLayerNormalization", 5}}},
        Case{"generation/references/olmo2", {{"SkipSimplifiedLayerNormalization", 1}}},
        Case{"generation/references/phi3-narrow", {{"SkipSimplifiedLayerNormalization", 4}}},
        Case{"generation/references/qwen3", {{"SkipSimplifiedLayerNormalization", 4}}},
        Case{"importer/images/clip-vit-base-patch32",
             {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 4}},
             "text_model.onnx"},
        Case{"importer/images/clip-vit-base-patch32",
             {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 3}},
             "vision_model.onnx"},
        Case{"importer/images/siglip-base-patch16",
             {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 4}},
             "text_model.onnx"},
        Case{"importer/images/siglip-base-patch16",
             {{"MultiHeadAttention", 2}, {"SkipLayerNormalization", 4}},
             "vision_model.onnx"}),
    [](const auto& test) {
      std::string name = std::string(test.param.folder) + "/" + fs::path(test.param.file).stem().string();
      std::ranges::replace_if(
          name, [](char one) { return one == '-' || one == '/'; }, '_');
      return name;
    });

}  // namespace
}  // namespace gpux::importer
