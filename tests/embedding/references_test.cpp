#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "checkpoint/safetensors.h"
#include "embedding/embed_all.h"
#include "importer/encoder_graph.h"
#include "importer/families/family.h"
#include "importer/import_model.h"
#include "onnx/half.h"
#include "runtime/cpu_runtime.h"
#include "tensor/npy.h"

namespace gpux::embedding {
namespace {

namespace fs = std::filesystem;

const fs::path references = GPUX_SOURCE_DIR "/tests/embedding/references";

struct Model {
  const char* name;
  fs::path folder;  ///< as sentence-transformers writes it
};

void PrintTo(const Model& model, std::ostream* out) {
  *out << model.name;
}

/// What sentence-transformers gives, by scripts/references/sentence-references.
class Reference : public CpuRuntime, public testing::WithParamInterface<Model> {
 protected:
  void SetUp() override {
    CpuRuntime::SetUp();
    if (!fs::exists(GetParam().folder)) GTEST_SKIP() << GetParam().folder << " is not there; scripts/setup fetches it";
    (void)importer::import_model(GetParam().folder, folder_.path() / "made");
    std::ifstream lines(references / "sentences.txt");
    for (std::string line; std::getline(lines, line);) sentences_.push_back(line);
    ASSERT_EQ(sentences_.size(), 1000U);
  }

  [[nodiscard]] TextEmbedder embedder(TextBatching batching = TextBatching::exact) const {
    checkpoint::SentenceModel model = checkpoint::read_sentence_model(folder_.path() / "made");
    const fs::path file = model.onnx_file;
    return {std::move(model), Runtime(file, {.provider = "cpu", .intra_threads = 1}), batching};
  }

  /// Holds the vectors of the sentences against sentence-transformers'.
  void expect_reference(const std::vector<float>& vectors) const {
    const std::string file = read_file(references / (std::string(GetParam().name) + ".npy"));
    const Tensor expected = read_npy(std::as_bytes(std::span(file)));
    const std::span<const std::int16_t> numbers = expected.as<std::int16_t>();
    const std::size_t dimension = numbers.size() / sentences_.size();
    ASSERT_EQ(vectors.size(), numbers.size());
    for (std::size_t row = 0; row < sentences_.size(); ++row) {
      double product = 0, own = 0, other = 0, difference = 0;
      for (std::size_t i = row * dimension; i < (row + 1) * dimension; ++i) {
        const double ours = vectors[i], theirs = numbers[i] / 32767.0;
        product += ours * theirs;
        own += ours * ours;
        other += theirs * theirs;
        difference = std::max(difference, std::abs(ours - theirs));
      }
      EXPECT_LE(difference, 1e-4) << sentences_[row];
      EXPECT_GE(product / std::sqrt(own * other), 0.99999) << sentences_[row];
    }
  }

  /// [sentences, dimension], of the sentences in this order.
  static std::vector<float> vectors_of(const TextEmbedder& embedder, const std::vector<std::string>& sentences,
                                       unsigned threads) {
    std::vector<float> vectors;
    std::size_t next = 0;
    const auto source = [&](std::string& text) {
      if (next == sentences.size()) return false;
      text = sentences[next++];
      return true;
    };
    embed_all(embedder, {}, source, threads, [&](std::string_view, std::span<const float> vector) {
      vectors.insert(vectors.end(), vector.begin(), vector.end());
    });
    return vectors;
  }

  test::TemporaryFolder folder_;
  std::vector<std::string> sentences_;
};

TEST_P(Reference, EmbeddingsMatchSentenceTransformers) {
  expect_reference(vectors_of(embedder(), sentences_, 1));
}

TEST_P(Reference, EmbeddingsMatchInSharedRuns) {
  const TextEmbedder exact = embedder();
  EXPECT_EQ(exact.batching(false).limits.max_rows, 1) << "nothing is known yet";
  EXPECT_GT(exact.batching(true).limits.max_rows, 1) << "the runs that were tried gave other bits";
  expect_reference(vectors_of(exact, sentences_, 2));
}

TEST_P(Reference, EmbeddingsMatchInThroughputMode) {
  expect_reference(vectors_of(embedder(TextBatching::throughput), sentences_, 2));
}

TEST_P(Reference, IsMetWhereTheGraphGivesTokensOnly) {
  const fs::path made = folder_.path() / "made";
  const checkpoint::Safetensors weights(GetParam().folder / "model.safetensors");
  const checkpoint::ConfigReader config(read_file(made / "config.json"));
  importer::write_encoder(weights, importer::describe_architecture(config, weights), {}, made / "model.onnx");
  expect_reference(vectors_of(embedder(), sentences_, 2));
}

TEST_P(Reference, IsNearInFloat16) {
  const fs::path file = folder_.path() / "made/model.onnx";
  const std::vector<std::string> some(sentences_.begin(), sentences_.begin() + 100);
  const std::vector<float> expected = vectors_of(embedder(), some, 2);
  onnx::to_float16(file, {}).write(file);
  const std::vector<float> vectors = vectors_of(embedder(), some, 2);
  const std::size_t dimension = expected.size() / some.size();
  for (std::size_t row = 0; row < some.size(); ++row) {
    double product = 0;
    for (std::size_t i = row * dimension; i < (row + 1) * dimension; ++i) product += expected[i] * vectors[i];
    EXPECT_GE(product, 0.9995) << some[row];
  }
}

TEST_P(Reference, GivesTheSameBitsInAnyOrderAndCompany) {
  const TextEmbedder model = embedder();
  std::vector<std::string> some(sentences_.begin() + 40, sentences_.begin() + 140);
  const std::vector<float> together = vectors_of(model, some, 4);
  std::ranges::reverse(some);
  const std::vector<float> reversed = vectors_of(model, some, 3);
  const std::size_t dimension = together.size() / some.size();
  for (std::size_t row = 0; row < some.size(); ++row) {
    const auto first = together.begin() + static_cast<std::ptrdiff_t>((some.size() - 1 - row) * dimension);
    const std::vector<float> in_company(first, first + static_cast<std::ptrdiff_t>(dimension));
    EXPECT_EQ(model.embed(some[row]), in_company) << some[row];
    EXPECT_TRUE(std::ranges::equal(in_company, std::span(reversed).subspan(row * dimension, dimension))) << some[row];
  }
}

TEST_P(Reference, GivesTheSameBitsInSharedRunsOfAnySize) {
  const TextEmbedder model = embedder();
  for (std::size_t tokens = 2; tokens <= 128; tokens += tokens < 40 ? 1 : 11) {
    std::vector<PreparedText> texts;
    for (std::size_t i = 63; texts.size() < 16 && i < sentences_.size(); ++i) {
      PreparedText text = model.encoder().prepare(sentences_[i], {.max_tokens = tokens});
      if (text.tokens == tokens) texts.push_back(std::move(text));
    }
    for (const std::size_t count : {2U, 3U, 5U, 16U}) {
      if (count > texts.size() || count * tokens > 512) continue;
      const auto together = model.embed(std::span(texts).first(count), {});
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(model.embed(std::span(texts).subspan(i, 1), {}).front(), together[i])
            << tokens << " tokens, " << count << " texts";
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<Model>& info) {
  std::string name = info.param.name;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Random, Reference,
                         testing::Values(Model{"bert-cls", references / "bert-cls"},
                                         Model{"mpnet-mean", references / "mpnet-mean"},
                                         Model{"distilbert-dense", references / "distilbert-dense"},
                                         Model{"xlm-roberta-last", references / "xlm-roberta-last"}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Real, Reference, testing::Values(Model{"all-MiniLM-L6-v2", GPUX_DEPS_DIR "/all-MiniLM-L6-v2"}),
                         name_of);

}  // namespace
}  // namespace gpux::embedding
