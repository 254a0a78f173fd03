// Keys and values in float16, where a provider has their attention in float16 alone, and where that is asked for.
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device_generation.h"
#include "generation/decoder.h"
#include "generation/decoder_signature.h"

namespace gpux::generation {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// Of this process, until it is destroyed.
class Variable {
 public:
  explicit Variable(const char* value) { ::setenv(name, value, 1); }

  ~Variable() { ::unsetenv(name); }

  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  static constexpr const char* name = "FLOAT16_ATTENTION";
};

class Float16CachesTest : public DeviceCachesTest {
 protected:
  static LoadOptions with(LoadOptions options, CachePrecision precision) {
    options.cache_precision = precision;
    return options;
  }

  static LoadOptions device() { return on("halves", FLOAT16_ATTENTION_PROVIDER); }

  [[nodiscard]] ElementType type_of_keys(const LoadOptions& options) const {
    return require_decoder(Runtime(model() / "model.onnx", options).info()).cache.type;
  }

  // float32[prompt, vocabulary]: after each token.
  [[nodiscard]] std::vector<float> logits(const LoadOptions& options) const {
    Decoder decoder(Runtime(model() / "model.onnx", options), 1);
    std::vector<std::uint32_t> tokens;
    for (std::uint32_t i = 0; i < 90; ++i) tokens.push_back(5 + i * 37 % 190);
    decoder.reserve(tokens.size(), {0});
    std::vector<float> all;
    for (std::size_t begin = 0; begin < tokens.size();) {
      const std::size_t count = begin == 0 ? 40 : 1;
      const Decoder::Row row{begin, std::span(tokens).subspan(begin, count)};
      const Tensor last = decoder.run(0, {&row, 1});
      all.insert(all.end(), last.as<float>().begin(), last.as<float>().end());
      begin += count;
    }
    return all;
  }

  static float largest_difference(const std::vector<float>& one, const std::vector<float>& other) {
    EXPECT_EQ(one.size(), other.size());
    float largest = 0;
    for (std::size_t i = 0; i < one.size(); ++i) largest = std::max(largest, std::abs(one[i] - other[i]));
    return largest;
  }
};

constexpr const char* note = "keys and values are stored in float16: the provider has their attention in float16 alone";

TEST_F(Float16CachesTest, TakeHalfTheMemoryWhereTheyAreAskedFor) {
  const LoadOptions asked = with(on_cpu(), CachePrecision::float16);
  const Runtime runtime(model() / "model.onnx", asked);
  EXPECT_THAT(runtime.verdict().notes, Contains("keys and values are stored in float16"));
  const DecoderSignature halves = require_decoder(runtime.info());
  EXPECT_EQ(halves.cache.type, ElementType::float16);
  EXPECT_TRUE(halves.writes_in_place);
  EXPECT_EQ(engine(asked)->memory_needed(100) * 2, engine(on_cpu())->memory_needed(100));
  const std::vector<float> exact = logits(on_cpu()), near = logits(asked);
  EXPECT_LT(largest_difference(near, exact), 0.03F);
  EXPECT_NE(near, exact);
}

TEST_F(Float16CachesTest, AreNoInt8WithoutTheDecoderProvider) {
  for (const LoadOptions& options : {on_cpu(), device()}) {
    const Runtime runtime(model() / "model.onnx", with(options, CachePrecision::int8));
    EXPECT_EQ(require_decoder(runtime.info()).cache.type, ElementType::float32);
    EXPECT_THAT(runtime.verdict().notes,
                Contains("keys and values are not stored in int8: only the decoder provider reads them"));
  }
  LoadOptions around = with(on_cpu(), CachePrecision::int8);
  around.before = model() / "model.onnx";
  EXPECT_THROW(Runtime(model() / "model.onnx", around), Error);
}

TEST_F(Float16CachesTest, AreAsTheModelHasThemOtherwise) {
  EXPECT_EQ(type_of_keys(on_cpu()), ElementType::float32);
  EXPECT_EQ(type_of_keys(device()), ElementType::float32);
  EXPECT_EQ(type_of_keys(with(on_cpu(), CachePrecision::automatic)), ElementType::float32);
}

TEST_F(Float16CachesTest, LetAProviderComputeWhatItHasInFloat16Alone) {
  const LoadOptions automatic = with(device(), CachePrecision::automatic);
  const auto there = engine(automatic);
  EXPECT_THAT(there->verdict().notes, Contains(note));
  const auto nodes_there = [](const Engine& engine) {
    return std::ranges::count(engine.runtime().placement(), std::string("halves"), &Runtime::PlacedNode::provider);
  };
  EXPECT_EQ(nodes_there(*there), 2);
  EXPECT_EQ(nodes_there(*engine(device())), 0);
  EXPECT_LT(largest_difference(logits(automatic), logits(on_cpu())), 0.03F);
  const Outcome alone = generated(*there, requests(8), false);
  EXPECT_EQ(generated(*there, requests(8), true).texts, alone.texts);
}

TEST_F(Float16CachesTest, StayInFloat32WhereAnExampleIsWrong) {
  const Variable wrong("wrong");
  const auto there = engine(with(device(), CachePrecision::automatic));
  EXPECT_THAT(there->verdict().notes,
              Contains(HasSubstr("keys and values are not stored in float16: an example of it is wrong by 1")));
  EXPECT_LT(largest_difference(logits(with(device(), CachePrecision::automatic)), logits(on_cpu())), 1e-5F);
}

TEST_F(Float16CachesTest, StayInFloat32WhereTheGraphIsKept) {
  LoadOptions written = with(on_cpu(), CachePrecision::float16);
  written.optimized_model = folder_.path() / "optimized.onnx";
  const Runtime runtime(model() / "model.onnx", written);
  EXPECT_EQ(require_decoder(runtime.info()).cache.type, ElementType::float32);
  EXPECT_THAT(runtime.verdict().notes,
              Contains("keys and values are not stored in float16: the graph is kept for later loads"));
}

TEST_F(Float16CachesTest, AreRefusedWithModelsAround) {
  LoadOptions around = with(on_cpu(), CachePrecision::float16);
  around.before = model() / "model.onnx";
  try {
    (void)Runtime(model() / "model.onnx", around);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.message(), HasSubstr("not supported with models before or after"));
  }
}

// Keys and values that other nodes read, too.
TEST_F(Float16CachesTest, StayWhereTheyAreNotForAttentionAlone) {
  write_decoder_with_products(model() / "model.onnx");
  const Runtime runtime(model() / "model.onnx", with(on_cpu(), CachePrecision::float16));
  EXPECT_EQ(require_decoder(runtime.info()).cache.type, ElementType::float32);
  EXPECT_THAT(runtime.verdict().notes,
              Contains("keys and values are not stored in float16: they are not float32 inputs and outputs for "
                       "GroupQueryAttention alone"));
}

}  // namespace
}  // namespace gpux::generation
