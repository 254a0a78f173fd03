// What gpux imports, with ONNX Runtime's fused operators and without: both give the same on the CPU.
#include <algorithm>
#include <iostream>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/model_inspector.h"
#include "importer/encoder_graph.h"
#include "importer/families/family.h"
#include "importer/import_encoder.h"
#include "importer/safetensors.h"
#include "onnx/fused_attention.h"
#include "runtime/cpu_runtime.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;

const fs::path tests = GPUX_SOURCE_DIR "/tests";

/// A model that is imported, and what is fused in it.
struct Case {
  const char* folder;
  std::size_t attentions, norms, simplified_norms;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.folder;
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
      import_encoder(source, made, {});
      for (auto& e : fs::directory_iterator(made)) std::cerr << "ZZ " << e.path() << "\n";
      return made / "model.onnx";
    }
    const Safetensors weights(source / "model.safetensors");
    const Architecture architecture = describe_architecture(ConfigReader(read_file(source / "config.json")), weights);
    write_encoder(weights, architecture, {.pooling = GraphPooling::mean}, folder_.path() / "model.onnx");
    return folder_.path() / "model.onnx";
  }

  test::TemporaryFolder folder_;
};

TEST_P(FusedAttention, GivesTheSame) {
  const fs::path model = plain();
  const auto fused = onnx::with_fused_attention(read_file(model));
  ASSERT_TRUE(fused.has_value());
  std::cerr << "ZZ " << GetParam().folder << " " << fused->attentions << " " << fused->norms << " " << fused->simplified_norms << " softmax " << ModelInspector::inspect(model).operators.contains("Softmax") << "\n";
  EXPECT_EQ(fused->attentions, GetParam().attentions);
  EXPECT_EQ(fused->norms, GetParam().norms);
  EXPECT_EQ(fused->simplified_norms, GetParam().simplified_norms);
  const fs::path file = model.parent_path() / "fused.onnx";
  folder_.write(file.lexically_relative(folder_.path()).string(), fused->content);
  const auto expected = results_of(model), met = results_of(file);
  ASSERT_EQ(met.size(), expected.size());
  for (std::size_t i = 0; i < met.size(); ++i) {
    ASSERT_EQ(met[i].size(), expected[i].size());
    for (std::size_t j = 0; j < met[i].size(); ++j) ASSERT_NEAR(met[i][j], expected[i][j], 1e-5) << i << ", " << j;
  }
}

INSTANTIATE_TEST_SUITE_P(Imported, FusedAttention,
                         testing::Values(
Case{"embedding/data/bert", 0, 0, 0},
Case{"embedding/data/distilbert", 0, 0, 0},
Case{"embedding/data/mpnet", 0, 0, 0},
Case{"embedding/data/xlm-roberta", 0, 0, 0},
Case{"importer/families/albert", 0, 0, 0},
Case{"importer/families/deberta-v2-own-keys", 0, 0, 0},
Case{"importer/families/deberta-v3", 0, 0, 0},
Case{"importer/families/electra", 0, 0, 0},
Case{"importer/families/eurobert", 0, 0, 0},
Case{"importer/families/gemma3", 0, 0, 0},
Case{"importer/families/gemma3-causal", 0, 0, 0},
Case{"importer/families/gte", 0, 0, 0},
Case{"importer/families/jina-v2", 0, 0, 0},
Case{"importer/families/jina-v3", 0, 0, 0},
Case{"importer/families/jina-v3-adapters", 0, 0, 0},
Case{"importer/families/llama", 0, 0, 0},
Case{"importer/families/mistral", 0, 0, 0},
Case{"importer/families/modernbert", 0, 0, 0},
Case{"importer/families/mt5", 0, 0, 0},
Case{"importer/families/nomic-bert", 0, 0, 0},
Case{"importer/families/qwen2", 0, 0, 0},
Case{"importer/families/qwen2-bidirectional", 0, 0, 0},
Case{"importer/families/qwen3", 0, 0, 0},
Case{"importer/families/t5", 0, 0, 0},
Case{"importer/families/t5-gated", 0, 0, 0},
Case{"importer/families/yarn", 0, 0, 0},
Case{"importer/images/clip-vit-base-patch32", 0, 0, 0},
Case{"importer/images/clip-vit-large-patch14", 0, 0, 0},
Case{"importer/images/dinov2-base", 0, 0, 0},
Case{"importer/images/dinov2-classifier", 0, 0, 0},
Case{"importer/images/dinov2-small", 0, 0, 0},
Case{"importer/images/siglip-base-patch16", 0, 0, 0},
Case{"importer/images/vit-base-patch16", 0, 0, 0},
Case{"importer/images/vit-classifier", 0, 0, 0},
Case{"generation/references/gemma2", 0, 0, 0},
Case{"generation/references/gemma3", 0, 0, 0},
Case{"generation/references/gpt2", 0, 0, 0},
Case{"generation/references/granite", 0, 0, 0},
Case{"generation/references/llama2", 0, 0, 0},
Case{"generation/references/llama3", 0, 0, 0},
Case{"generation/references/mistral", 0, 0, 0},
Case{"generation/references/olmo2", 0, 0, 0},
Case{"generation/references/phi3", 0, 0, 0},
Case{"generation/references/phi3-long", 0, 0, 0},
Case{"generation/references/phi3-narrow", 0, 0, 0},
Case{"generation/references/phi4-mini", 0, 0, 0},
Case{"generation/references/qwen2", 0, 0, 0},
Case{"generation/references/qwen2-windows", 0, 0, 0},
Case{"generation/references/qwen3", 0, 0, 0},
Case{"generation/references/smollm2", 0, 0, 0},
Case{"generation/references/smollm3", 0, 0, 0}
                         ),
                         [](const auto& test) {
                           std::string name = test.param.folder;
                           std::ranges::replace_if(name, [](char one) { return one == '-' || one == '/'; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace gpux::importer
