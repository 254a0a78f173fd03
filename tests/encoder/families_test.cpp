// Small encoders of each family, as gpux imports them: the encoder provider takes them as a whole, and has the answers
// of the CPU provider.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/runtime.h"
#include "importer/encoder_graph.h"
#include "importer/families/family.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;

const fs::path references = GPUX_SOURCE_DIR "/tests/importer/families";

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(references)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

constexpr std::int64_t texts = 3, length = 21;

// Three texts of different lengths, padded on one side.
NamedValues batch_of(const Signature& signature, bool is_left, std::int64_t vocabulary) {
  NamedValues inputs;
  for (const SignatureEntry& entry : signature.inputs) {
    Tensor tensor = Tensor::allocate(ElementType::int64, {texts, length});
    const auto values = tensor.mutable_as<std::int64_t>();
    for (std::int64_t i = 0; i < texts * length; ++i) {
      const std::int64_t text = i / length, token = i % length, tokens = length - 8 * text;
      const bool is_token = is_left ? token >= length - tokens : token < tokens;
      std::int64_t& value = values[static_cast<std::size_t>(i)];
      value = is_token ? 1 : 0;
      if (entry.name == "input_ids") value = is_token ? 3 + (7 * i + 5 * text) % (vocabulary - 3) : 0;
      if (entry.name == "token_type_ids") value = 0;
    }
    inputs.emplace_back(entry.name, std::move(tensor));
  }
  return inputs;
}

bool is_active(const Runtime& runtime, const std::string& provider) {
  return std::ranges::find(runtime.verdict().active, provider) != runtime.verdict().active.end();
}

std::string reason_of(const Runtime& runtime) {
  for (const ProviderAttempt& attempt : runtime.verdict().tried) {
    if (attempt.id == "encoder") return attempt.reason;
  }
  return {};
}

class TakenFamily : public testing::TestWithParam<std::string> {
 protected:
  test::TemporaryFolder folder_;
};

TEST_P(TakenFamily, AsAWholeWithTheAnswersOfTheCpu) {
  const fs::path source = references / GetParam();
  const Safetensors weights(source / "model.safetensors");
  const Architecture architecture = describe_architecture(ConfigReader(read_file(source / "config.json")), weights);
  for (const GraphPooling pooling : {GraphPooling::mean, GraphPooling::cls, GraphPooling::last_token}) {
    SCOPED_TRACE(static_cast<int>(pooling));
    const fs::path file = folder_.path() / "model.onnx";
    write_encoder(weights, architecture, {.pooling = pooling, .normalize = true}, file);
    const Runtime cpu(file, {.provider = "cpu"}), encoder(file, {.provider = "encoder"});
    ASSERT_TRUE(is_active(encoder, "encoder")) << reason_of(encoder);
    EXPECT_FALSE(is_active(encoder, "cpu"));
    for (const bool is_left : {false, true}) {
      if (is_left && pooling == GraphPooling::cls) continue;
      SCOPED_TRACE(is_left ? "padding on the left" : "padding on the right");
      const NamedValues inputs = batch_of(cpu.info().signature, is_left, architecture.embeddings.vocabulary);
      const auto mask = std::ranges::find_if(inputs, [](const auto& one) { return one.first == "attention_mask"; });
      ASSERT_NE(mask, inputs.end());
      const auto bits = mask->second.tensor()->as<std::int64_t>();
      const NamedValues expected = cpu.infer(inputs), ours = encoder.infer(inputs);
      ASSERT_EQ(ours.size(), expected.size());
      for (std::size_t output = 0; output < ours.size(); ++output) {
        const Tensor &a = *expected[output].second.tensor(), &b = *ours[output].second.tensor();
        ASSERT_EQ(a.shape(), b.shape());
        const auto left = a.as<float>(), right = b.as<float>();
        const auto size = static_cast<std::size_t>(a.shape().back());
        double top = 1;
        for (const float value : left) {
          if (std::isfinite(value)) top = std::max(top, std::abs(static_cast<double>(value)));
        }
        for (std::size_t i = 0; i < left.size(); ++i) {
          // Hidden states of padding mean nothing.
          if (a.shape().size() == 3 && bits[i / size] == 0) continue;
          ASSERT_NEAR(left[i], right[i], 2e-5 * top) << expected[output].first << ", element " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TakenFamily, testing::ValuesIn(families()), [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace gpux::importer
