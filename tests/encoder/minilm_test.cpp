// A real model in each precision, held against ONNX Runtime's float32 on real sentences.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "checkpoint/sentence_model.h"
#include "embedding/embedder.h"
#include "gpux/runtime.h"
#include "importer/import_model.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using embedding::TextEmbedder;

// Of the 1,000 of the references every tenth: English and other languages, code, numbers.
std::vector<std::string> sentences() {
  std::vector<std::string> some;
  std::ifstream file(GPUX_SOURCE_DIR "/tests/embedding/references/sentences.txt");
  std::string line;
  for (std::size_t number = 0; std::getline(file, line); ++number) {
    if (number % 10 == 3) some.push_back(line);
  }
  return some;
}

/// What a precision is held to: of each sentence, and of all together.
struct Bounds {
  const char* precision;
  double least_cosine, least_mean_cosine;
  double largest_difference;  ///< of an element of a vector of length 1

  friend std::ostream& operator<<(std::ostream& to, const Bounds& bounds) { return to << bounds.precision; }
};

class RealMiniLM : public testing::TestWithParam<Bounds> {
 protected:
  static void SetUpTestSuite() {
    const fs::path source = GPUX_DEPS_DIR "/all-MiniLM-L6-v2";
    if (!fs::exists(source / "model.safetensors")) return;
    folder_ = new test::TemporaryFolder;
    (void)importer::import_model(source, folder_->path() / "model");
    sentences_ = new std::vector<std::string>(sentences());
    expected_ = new std::vector<std::vector<float>>(vectors("cpu", ""));
  }

  static void TearDownTestSuite() {
    delete expected_;
    delete sentences_;
    delete folder_;
  }

  static std::vector<std::vector<float>> vectors(const std::string& provider, const std::string& precision) {
    LoadOptions options;
    options.provider = provider;
    options.precision = precision;
    const fs::path model = folder_->path() / "model";
    Runtime runtime(model / "model.onnx", options);
    EXPECT_EQ(runtime.verdict().active.front(), provider);
    const TextEmbedder embedder(checkpoint::read_sentence_model(model), std::move(runtime));
    std::vector<std::vector<float>> all;
    for (const std::string& sentence : *sentences_) all.push_back(embedder.embed(sentence));
    return all;
  }

  static inline test::TemporaryFolder* folder_ = nullptr;
  static inline std::vector<std::string>* sentences_ = nullptr;
  static inline std::vector<std::vector<float>>* expected_ = nullptr;
};

TEST_P(RealMiniLM, HasTheVectorsOfFloat32WithinItsBounds) {
  if (folder_ == nullptr) GTEST_SKIP() << "no " GPUX_DEPS_DIR "/all-MiniLM-L6-v2 (scripts/setup --test brings it)";
  ASSERT_EQ(sentences_->size(), 100U);
  const std::vector<std::vector<float>> got = vectors("encoder", GetParam().precision);
  double mean = 0, least = 1, largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::vector<float>&a = got[i], &b = (*expected_)[i];
    ASSERT_EQ(a.size(), b.size());
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
      ab += static_cast<double>(a[k]) * b[k];
      aa += static_cast<double>(a[k]) * a[k];
      bb += static_cast<double>(b[k]) * b[k];
      largest = std::max(largest, std::abs(static_cast<double>(a[k]) - b[k]));
    }
    const double cosine = ab / std::sqrt(aa * bb);
    EXPECT_GE(cosine, GetParam().least_cosine) << (*sentences_)[i];
    least = std::min(least, cosine);
    mean += cosine / static_cast<double>(got.size());
  }
  std::printf("%s: cosine %.6f mean, %.6f least; largest difference %.6f\n", GetParam().precision, mean, least,
              largest);
  EXPECT_GE(mean, GetParam().least_mean_cosine);
  EXPECT_LE(largest, GetParam().largest_difference);
}

INSTANTIATE_TEST_SUITE_P(Precisions, RealMiniLM,
                         testing::Values(Bounds{"fp32", 0.999999, 0.9999999, 1e-5},
                                         Bounds{"bf16", 0.99995, 0.99998, 0.002}, Bounds{"int8", 0.9955, 0.9985, 0.017},
                                         Bounds{"int8-bf16", 0.997, 0.999, 0.015}),
                         [](const auto& test) {
                           std::string name = test.param.precision;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace gpux
