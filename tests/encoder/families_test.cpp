// Small encoders of each family, as gpux imports them: the encoder provider takes them as a whole, and has the answers
// of the CPU provider.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "checkpoint/safetensors.h"
#include "gpux/runtime.h"
#include "importer/encoder_graph.h"
#include "importer/families/family.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;

const fs::path references = GPUX_SOURCE_DIR "/tests/importer/families";

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(references)) {
    const std::string name = entry.path().filename().string();
    // Adapters that an input selects are left to the CPU provider.
    if (name != "jina-v3-adapters") names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

enum class Masks : std::uint8_t {
  right,     // texts of different lengths, padded on the right
  left,      // or on the left
  holed,     // masked tokens in between
  one_empty  // a text without tokens among others
};

struct Shape {
  std::int64_t texts = 3, length = 21;
};

bool is_unmasked(Masks masks, const Shape& shape, std::int64_t text, std::int64_t token) {
  const std::int64_t tokens = std::max<std::int64_t>(1, shape.length - 8 * text);
  switch (masks) {
    case Masks::right:
      return token < tokens;
    case Masks::left:
      return token >= shape.length - tokens;
    case Masks::holed:
      return token == 0 || token == shape.length - 1 || (7 * token + 3 * text) % 4 != 0;
    case Masks::one_empty:
      return text != 1 && token < tokens;
  }
  return true;
}

NamedValues batch_of(const Signature& signature, Masks masks, const Shape& shape, std::int64_t vocabulary) {
  NamedValues inputs;
  for (const SignatureEntry& entry : signature.inputs) {
    Tensor tensor = Tensor::allocate(ElementType::int64, {shape.texts, shape.length});
    const auto values = tensor.mutable_as<std::int64_t>();
    for (std::int64_t i = 0; i < shape.texts * shape.length; ++i) {
      const std::int64_t text = i / shape.length, token = i % shape.length;
      const bool is_token = is_unmasked(masks, shape, text, token);
      std::int64_t& value = values[static_cast<std::size_t>(i)];
      value = is_token ? 1 : 0;
      if (entry.name == "input_ids") value = is_token ? 3 + (7 * i + 5 * text) % (vocabulary - 3) : 0;
      if (entry.name == "token_type_ids") value = 0;
    }
    inputs.emplace_back(entry.name, std::move(tensor));
  }
  return inputs;
}

// The unmasked tokens of one text, without padding.
NamedValues alone(const NamedValues& batch, std::int64_t text) {
  std::vector<std::size_t> tokens;
  const auto row_of = [text](const Tensor& tensor) {
    const auto length = static_cast<std::size_t>(tensor.shape()[1]);
    return tensor.as<std::int64_t>().subspan(static_cast<std::size_t>(text) * length, length);
  };
  for (const auto& [name, value] : batch) {
    if (name != "attention_mask") continue;
    const auto bits = row_of(*value.tensor());
    for (std::size_t token = 0; token < bits.size(); ++token) {
      if (bits[token] != 0) tokens.push_back(token);
    }
  }
  NamedValues inputs;
  for (const auto& [name, value] : batch) {
    std::vector<std::int64_t> own;
    for (const std::size_t token : tokens) own.push_back(row_of(*value.tensor())[token]);
    inputs.emplace_back(name, Tensor::of<std::int64_t>({1, static_cast<std::int64_t>(own.size())}, own));
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
  // The family's model, as gpux imports it with this pooling.
  fs::path write(GraphPooling pooling) {
    const fs::path source = references / GetParam();
    const checkpoint::Safetensors weights(source / "model.safetensors");
    const Architecture architecture =
        describe_architecture(checkpoint::ConfigReader(read_file(source / "config.json")), weights);
    vocabulary_ = architecture.embeddings.vocabulary;
    fs::path file = folder_.path() / "model.onnx";
    write_encoder(weights, architecture, {.pooling = pooling, .normalize = true}, file);
    return file;
  }

  std::int64_t vocabulary_ = 0;
  static constexpr std::int64_t longest_ = 40;
  test::TemporaryFolder folder_;
};

void expect_near(const NamedValues& ours, const NamedValues& expected, std::span<const std::int64_t> bits) {
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
      if (std::isnan(left[i]) && std::isnan(right[i])) continue;
      ASSERT_NEAR(left[i], right[i], 2e-5 * top) << expected[output].first << ", element " << i;
    }
  }
}

TEST_P(TakenFamily, AsAWholeWithTheAnswersOfTheCpu) {
  for (const GraphPooling pooling : {GraphPooling::mean, GraphPooling::cls, GraphPooling::last_token}) {
    SCOPED_TRACE(static_cast<int>(pooling));
    const fs::path file = write(pooling);
    const Runtime cpu(file, {.provider = "cpu"}), encoder(file, {.provider = "encoder"});
    ASSERT_TRUE(is_active(encoder, "encoder")) << reason_of(encoder);
    EXPECT_FALSE(is_active(encoder, "cpu"));
    for (const Masks masks : {Masks::right, Masks::left, Masks::holed, Masks::one_empty}) {
      // The first token's row is that of a masked token.
      if (pooling == GraphPooling::cls && (masks == Masks::left || masks == Masks::one_empty)) continue;
      // The last size is the longest that all of these models take.
      for (const Shape& shape : {Shape{3, 21}, Shape{2, 1}, Shape{2, longest_}}) {
        SCOPED_TRACE(testing::Message() << "masks " << static_cast<int>(masks) << ", " << shape.texts << " x "
                                        << shape.length);
        const NamedValues inputs = batch_of(cpu.info().signature, masks, shape, vocabulary_);
        const auto mask = std::ranges::find_if(inputs, [](const auto& one) { return one.first == "attention_mask"; });
        ASSERT_NE(mask, inputs.end());
        expect_near(encoder.infer(inputs), cpu.infer(inputs), mask->second.tensor()->as<std::int64_t>());
        if (HasFatalFailure()) return;
      }
    }
  }
}

// A text that is padded on the right, in a batch with others, has the bits that it has alone.
TEST_P(TakenFamily, WithTheSameBitsInAnyBatch) {
  const fs::path file = write(GraphPooling::last_token);
  for (const char* precision : {"fp32", "bf16", "int8"}) {
    SCOPED_TRACE(precision);
    LoadOptions options;
    options.provider = "encoder";
    options.precision = precision;
    const Runtime encoder(file, options);
    const Shape shape{5, longest_};
    const NamedValues inputs = batch_of(encoder.info().signature, Masks::right, shape, vocabulary_);
    const std::string vectors = "sentence_embedding";
    const NamedValues together = encoder.infer(inputs, {.timeout = {}, .outputs = {vectors}});
    const auto all = together.front().second.tensor()->as<float>();
    const std::size_t size = all.size() / static_cast<std::size_t>(shape.texts);
    for (std::int64_t text = 0; text < shape.texts; ++text) {
      const NamedValues one = encoder.infer(alone(inputs, text), {.timeout = {}, .outputs = {vectors}});
      const auto own = one.front().second.tensor()->as<float>();
      EXPECT_TRUE(std::ranges::equal(own, all.subspan(static_cast<std::size_t>(text) * size, size))) << "text " << text;
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
