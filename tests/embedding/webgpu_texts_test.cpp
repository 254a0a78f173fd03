// Texts on a software Vulkan device: the vectors of the CPU, in runs of several texts of near lengths.
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/software_vulkan.h"
#include "base/temporary_folder.h"
#include "embedding/embed_all.h"
#include "embedding/embedder.h"
#include "embedding/graph_pooling.h"
#include "gpux/model_inspector.h"
#include "importer/import_model.h"

namespace gpux::embedding {
namespace {

class WebGpuTexts : public testing::Test {
 protected:
  void SetUp() override {
    const std::string problem = test::use_software_vulkan(GPUX_DEPS_DIR);
    if (!problem.empty()) GTEST_SKIP() << problem;
    importer::import_model(references + "/bert-cls", folder_.path() / "model");
    std::ifstream file(references + "/sentences.txt");
    for (std::string line; texts_.size() < 48 && std::getline(file, line);) texts_.push_back(line);
    ASSERT_EQ(texts_.size(), 48);
  }

  [[nodiscard]] TextEmbedder embedder(const LoadOptions& load, std::optional<TextBatching> batching = {}) const {
    const checkpoint::SentenceModel model = checkpoint::read_sentence_model(folder_.path() / "model");
    LoadOptions options = load;
    options.pooled_output = graph_pooling(model, ModelInspector::inspect(model.onnx_file).signature);
    return {model, Runtime(model.onnx_file, options), batching};
  }

  [[nodiscard]] std::vector<float> vectors(const TextEmbedder& embedder) const {
    std::vector<float> all;
    std::size_t next = 0;
    const auto source = [&](std::string& text) {
      if (next == texts_.size()) return false;
      text = texts_[next++];
      return true;
    };
    embed_all(embedder, {}, source, 1, [&](std::string_view, std::span<const float> vector) {
      all.insert(all.end(), vector.begin(), vector.end());
    });
    return all;
  }

  const std::string references = GPUX_SOURCE_DIR "/tests/embedding/references";
  const test::TemporaryFolder folder_;
  std::vector<std::string> texts_;
};

TEST_F(WebGpuTexts, ShareRunsAndHaveTheVectorsOfTheCpu) {
  const std::vector<float> expected = vectors(embedder({.provider = "cpu", .intra_threads = 1}, TextBatching::exact));
  // By default on a GPU, which a processor in its place is not.
  const TextEmbedder there = embedder(test::on_software_vulkan(GPUX_DEPS_DIR), TextBatching::throughput);
  const TextSharing batching = there.batching(true);
  EXPECT_THAT(there.encoder().filling_problem(), testing::IsEmpty());
  EXPECT_GT(batching.limits.max_rows, 1) << batching.sharing.reason;
  const TransferCounts before = there.runtime().transfers();
  EXPECT_THAT(vectors(there), testing::Pointwise(testing::FloatNear(1e-5F), expected));
  // A run copies its vectors back at once.
  const TransferCounts after = there.runtime().transfers();
  EXPECT_EQ(after.from_device_bytes - before.from_device_bytes, expected.size() * sizeof(float));
  EXPECT_LT(after.from_device - before.from_device, texts_.size() / 4);
}

}  // namespace
}  // namespace gpux::embedding
