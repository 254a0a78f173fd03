#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/runnable_kernels.h"
#include "cpu/side_by_side.h"
#include "small_encoder.h"

namespace gpux_cpu::encoder {
namespace {

/// Texts of any of the lengths there are, each as its tokens.
std::vector<std::vector<std::int64_t>> random_texts(std::size_t count) {
  Random random;
  std::vector<std::vector<std::int64_t>> texts(count);
  for (std::size_t i = 0; i < count; ++i) {
    texts[i].resize(1 + i % max_length);
    for (std::int64_t& id : texts[i]) id = random.below(vocabulary_size);
  }
  return texts;
}

class BatchesIn : public testing::TestWithParam<Precision> {};

// Which texts meet, what they are filled up to and who computes them is chosen anew each time.
TEST_P(BatchesIn, LeaveEachTextItsBits) {
  constexpr int batches = 1000;
  constexpr std::size_t max_texts = 24;
  const std::vector<std::vector<std::int64_t>> texts = random_texts(2 * max_length);
  for (const Kernels* kernels : runnable()) {
    SCOPED_TRACE(std::string(kernels->name));
    const Encoder encoder(small_model(GetParam()), *kernels);
    std::vector<std::vector<float>> alone;
    for (const std::vector<std::int64_t>& text : texts) {
      alone.push_back(vectors_of(encoder, {1, text.size(), text.data(), nullptr, nullptr}, 1));
    }
    std::mt19937 engine(20261122);
    for (int batch = 0; batch < batches; ++batch) {
      std::vector<std::size_t> chosen(1 + engine() % max_texts);
      std::size_t length = 0;
      for (std::size_t& text : chosen) {
        text = engine() % texts.size();
        length = std::max(length, texts[text].size());
      }
      length += engine() % (max_length - length + 1);
      std::vector<std::int64_t> ids(chosen.size() * length), mask(ids.size());
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        const std::vector<std::int64_t>& text = texts[chosen[i]];
        std::copy(text.begin(), text.end(), ids.begin() + static_cast<std::ptrdiff_t>(i * length));
        std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(i * length), text.size(), 1);
      }
      std::vector<float> vectors(chosen.size() * hidden_size);
      encoder.run({chosen.size(), length, ids.data(), mask.data(), nullptr}, 1 + engine() % 2, side_by_side,
                  {vectors.data(), nullptr});
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        const auto first = vectors.begin() + static_cast<std::ptrdiff_t>(i * hidden_size);
        ASSERT_TRUE(std::equal(alone[chosen[i]].begin(), alone[chosen[i]].end(), first))
            << "batch " << batch << ", text " << i << " of " << chosen.size();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Encoder, BatchesIn,
                         testing::Values(Precision::fp32, Precision::bf16, Precision::int8, Precision::int8_bf16));

}  // namespace
}  // namespace gpux_cpu::encoder
