#include "embedding/graph_pooling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/own_program.h"
#include "base/temporary_folder.h"
#include "embedding/embedder.h"
#include "embedding/encoder_folder.h"
#include "embedding/pooling.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "onnx/graph_writer.h"
#include "onnx/pooled_output.h"
#include "runtime/cpu_runtime.h"

namespace gpux::embedding {
namespace {

using testing::Contains;
using testing::Each;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Not;
using testing::Pointwise;

constexpr float near_enough = 1e-6F;
constexpr std::array<Pooling, 6> all_poolings{
    Pooling::cls, Pooling::max, Pooling::mean, Pooling::mean_sqrt_length, Pooling::weighted_mean, Pooling::last_token};

SignatureEntry entry(const std::string& name, ElementType type, std::vector<Dimension> dimensions) {
  SignatureEntry made;
  made.name = name;
  made.type.element = type;
  made.type.dimensions = std::move(dimensions);
  return made;
}

Signature signature_of(const std::string& output, std::size_t rank) {
  std::vector<Dimension> dimensions{{std::nullopt, "batch"}, {std::nullopt, "sequence"}, {16, ""}};
  if (rank == 2) dimensions.erase(dimensions.begin() + 1);
  const std::vector<Dimension> of_tokens{{std::nullopt, "batch"}, {std::nullopt, "sequence"}};
  return {{entry("input_ids", ElementType::int64, of_tokens), entry("attention_mask", ElementType::int64, of_tokens)},
          {entry(output, ElementType::float32, std::move(dimensions))}};
}

checkpoint::SentenceModel mean_model() {
  checkpoint::SentenceModel model;
  model.poolings = {Pooling::mean};
  model.declares_pooling = true;
  model.normalize = true;
  return model;
}

TEST(GraphPooling, IsThatOfTheFolderWhereTheGraphCanDoIt) {
  const auto pooled = graph_pooling(mean_model(), signature_of("last_hidden_state", 3));
  ASSERT_TRUE(pooled.has_value());
  EXPECT_EQ(*pooled, (PooledOutput{.token_vectors = "last_hidden_state",
                                   .attention_mask = "attention_mask",
                                   .poolings = {Pooling::mean},
                                   .normalizes = true}));
  const auto differs = [](void (*change)(checkpoint::SentenceModel&)) {
    checkpoint::SentenceModel model = mean_model();
    change(model);
    return !graph_pooling(model, signature_of("last_hidden_state", 3)).has_value();
  };
  EXPECT_FALSE(differs([](auto& /*model*/) {}));
  EXPECT_TRUE(differs([](auto& model) { model.poolings.clear(); }));
  EXPECT_TRUE(differs([](auto& model) { model.dense.emplace_back(); }));
  EXPECT_TRUE(differs([](auto& model) { model.pools_prompt = false; }));
  EXPECT_TRUE(differs([](auto& model) { model.pads_to_max_tokens = true; }));
  EXPECT_TRUE(differs([](auto& model) { model.splade.emplace(); }));
  EXPECT_TRUE(differs([](auto& model) { model.late_interaction.emplace(); }));
  EXPECT_FALSE(graph_pooling(mean_model(), signature_of("sentence_embedding", 2)).has_value());
  EXPECT_FALSE(graph_pooling(mean_model(), signature_of("logits", 2)).has_value());
  Signature without_mask = signature_of("last_hidden_state", 3);
  without_mask.inputs.pop_back();
  EXPECT_FALSE(graph_pooling(mean_model(), without_mask).has_value());
}

/// A graph that gives the vectors of the tokens as it gets them.
class PooledGraphs : public CpuRuntime, public testing::WithParamInterface<std::int64_t> {
 protected:
  std::filesystem::path model(const PooledOutput& pooled, std::int64_t opset) {
    const std::array<onnx::WrittenSize, 3> of_vectors{"batch", "sequence", std::int64_t{4}};
    onnx::GraphWriter graph("tokens");
    graph.input("vectors", ElementType::float32, of_vectors);
    graph.input("attention_mask", ElementType::int64, std::span(of_vectors).first(2));
    graph.node("Identity", {"vectors"}, {}, "last_hidden_state");
    graph.output("last_hidden_state", ElementType::float32, of_vectors);
    const auto file = folder_.path() / "tokens.onnx";
    graph.write(file, opset, 8);
    folder_.write("pooled.onnx",
                  onnx::with_pooled_output(read_file(file), ModelInspector::inspect(file).signature, pooled));
    return folder_.path() / "pooled.onnx";
  }

  test::TemporaryFolder folder_;
};

constexpr std::size_t width = 4, sequence = 3;
const std::array<std::size_t, 3> lengths{3, 1, 2};

Tensor vectors_of_tokens() {
  Tensor vectors = Tensor::allocate(ElementType::float32, {3, 3, 4});
  float value = -1.7F;
  for (float& element : vectors.mutable_as<float>()) element = std::sin(value += 0.9F) * 3;
  return vectors;
}

Tensor mask_of_tokens() {
  Tensor mask = Tensor::allocate(ElementType::int64, {3, 3});
  for (std::size_t text = 0; text < lengths.size(); ++text) {
    for (std::size_t token = 0; token < lengths[text]; ++token) mask.mutable_as<std::int64_t>()[text * 3 + token] = 1;
  }
  return mask;
}

std::vector<float> pooled_on_host(const std::vector<Pooling>& poolings, bool normalizes) {
  const Tensor vectors = vectors_of_tokens();
  std::vector<float> all;
  for (std::size_t text = 0; text < lengths.size(); ++text) {
    const auto own = vectors.as<float>().subspan(text * sequence * width, lengths[text] * width);
    const std::vector<std::uint8_t> mask(lengths[text], 1);
    std::vector<float> vector;
    for (const Pooling pooling : poolings) append_pooled(pooling, own, mask, vector);
    if (normalizes) normalize(vector);
    all.insert(all.end(), vector.begin(), vector.end());
  }
  return all;
}

TEST_P(PooledGraphs, GiveWhatTheHostMakes) {
  std::vector<std::vector<Pooling>> choices{{all_poolings.begin(), all_poolings.end()}};
  for (const Pooling pooling : all_poolings) choices.push_back({pooling});
  for (const auto& poolings : choices) {
    for (const bool normalizes : {false, true}) {
      const Runtime runtime(model({.token_vectors = "last_hidden_state",
                                   .attention_mask = "attention_mask",
                                   .poolings = poolings,
                                   .normalizes = normalizes},
                                  GetParam()),
                            {.provider = "cpu"});
      const SignatureEntry& output = runtime.info().signature.outputs.back();
      EXPECT_EQ(output.name, "sentence_embedding");
      EXPECT_EQ(to_string(output.type), "float32[batch, " + std::to_string(4 * poolings.size()) + "]");
      const NamedValues results =
          runtime.infer({{"vectors", vectors_of_tokens()}, {"attention_mask", mask_of_tokens()}},
                        {.outputs = {"sentence_embedding"}});
      const Tensor& found = *results.front().second.tensor();
      EXPECT_EQ(found.shape(), (Shape{3, static_cast<std::int64_t>(4 * poolings.size())}));
      EXPECT_THAT(found.as<float>(), Pointwise(FloatNear(near_enough), pooled_on_host(poolings, normalizes)))
          << checkpoint::name_of(poolings.front()) << " of " << poolings.size();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Opsets, PooledGraphs, testing::Values(12, 13, 17, 18, 21));

class RefusedGraphs : public PooledGraphs {};

TEST_F(RefusedGraphs, AreRefusedWithTheReason) {
  const auto said = [&](const PooledOutput& pooled, std::int64_t opset) -> std::string {
    try {
      (void)model(pooled, opset);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model);
      return error.message();
    }
    return {};
  };
  const PooledOutput good{
      .token_vectors = "last_hidden_state", .attention_mask = "attention_mask", .poolings = {Pooling::max}};
  EXPECT_EQ(said(good, 17), "");
  EXPECT_EQ(said(good, 11), "its opset is 11, below 12");
  PooledOutput other = good;
  other.token_vectors = "tokens";
  EXPECT_EQ(said(other, 17), "the model has no 'tokens'");
  other = good;
  other.attention_mask = "vectors";
  EXPECT_EQ(said(other, 17), "'vectors' is float32[batch, sequence, 4], not of rank 2");
  other = good;
  other.poolings.clear();
  EXPECT_EQ(said(other, 17), "no pooling is given");
}

/// The encoder in a folder, on a provider.
class PooledEncoders : public CpuRuntime {
 protected:
  static TextEmbedder embedder(const std::string& provider, TextBatching batching, bool is_asked_for = true,
                               Isolation isolation = Isolation::thread) {
    const test::TemporaryFolder folder;
    const checkpoint::SentenceModel model = checkpoint::read_sentence_model(test::write_encoder_folder(
        folder, R"({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true})", true));
    LoadOptions options;
    options.provider = provider;
    options.provider_libraries = {{"example", GPUX_EXAMPLE_PROVIDER}};
    options.intra_threads = 1;
    options.isolation = isolation;
    if (is_asked_for) options.pooled_output = graph_pooling(model, ModelInspector::inspect(model.onnx_file).signature);
    return {model, Runtime(model.onnx_file, options), batching};
  }

  static std::vector<std::vector<float>> vectors(const TextEmbedder& embedder, const EmbedOptions& options = {}) {
    std::vector<PreparedText> prepared;
    for (const char* text : {"the quick brown fox", "a", "jumps over the lazy dog and runs"}) {
      prepared.push_back(embedder.encoder().prepare(text, options));
    }
    std::vector<std::vector<float>> found;
    for (const PreparedText& text : prepared) found.push_back(embedder.embed(std::span(&text, 1), options).front());
    return found;
  }
};

constexpr const char* in_graph = "texts are pooled in the graph: the model gives one vector per text";

TEST_F(PooledEncoders, GiveTheVectorsOfTheHost) {
  const TextEmbedder on_host = embedder("cpu", TextBatching::throughput),
                     in_the_graph = embedder("example", TextBatching::throughput);
  EXPECT_THAT(on_host.runtime().verdict().notes, Not(Contains(HasSubstr("pooled"))));
  ASSERT_THAT(in_the_graph.runtime().verdict().notes, Contains(in_graph));
  EXPECT_EQ(in_the_graph.encoder().output({}), "sentence_embedding");
  EXPECT_EQ(in_the_graph.encoder().dimension(), on_host.encoder().dimension());
  EmbedOptions cut, plain;
  cut.dimensions = 5;
  plain.normalize = false;  // the graph's are normalized: pooled on the host
  EXPECT_EQ(in_the_graph.encoder().output(plain), on_host.encoder().output({}));
  for (const EmbedOptions& options : {EmbedOptions(), cut, plain}) {
    const auto expected = vectors(on_host, options), found = vectors(in_the_graph, options);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_THAT(found[i], Pointwise(FloatNear(near_enough), expected[i])) << i;
    }
  }
}

// A word's vector times two: the example provider computes the product, and the texts that share a run are one.
void write_doubled_words(const std::filesystem::path& file) {
  constexpr std::int64_t words = 2000, size = 4;
  onnx::GraphWriter graph("encoder");
  const std::array<onnx::WrittenSize, 2> tokens{"batch", "sequence"};
  const std::array<onnx::WrittenSize, 3> vectors{"batch", "sequence", size};
  for (const char* name : {"input_ids", "attention_mask"}) graph.input(name, ElementType::int64, tokens);
  std::vector<float> table(static_cast<std::size_t>(words * size));
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i * 37 % 101) / 101;
  const std::string gathered = graph.node("Gather", {graph.floats("words", table, {words, size}), "input_ids"});
  graph.node("Mul", {gathered, graph.scalar(2)}, {}, "last_hidden_state");
  graph.output("last_hidden_state", ElementType::float32, vectors);
  graph.write(file, 17, 8);
}

// Eight texts, of a length once they are filled up: the copies are those of one run.
TEST_F(PooledEncoders, ShareARunOnADevice) {
  const test::TemporaryFolder folder;
  const std::filesystem::path encoder =
      test::write_encoder_folder(folder, R"({"pooling_mode_mean_tokens": true})", true);
  write_doubled_words(encoder / "onnx/model.onnx");
  const checkpoint::SentenceModel model = checkpoint::read_sentence_model(encoder);
  LoadOptions device;
  device.provider = "example";
  device.provider_libraries = {{"example", GPUX_EXAMPLE_PROVIDER}};
  const TextEmbedder on_host(model, Runtime(model.onnx_file, {.provider = "cpu"}), TextBatching::exact),
      on_device(model, Runtime(model.onnx_file, device), TextBatching::throughput);
  ASSERT_GT(on_device.batching(true).limits.max_rows, 1) << on_device.batching(true).sharing.reason;
  std::vector<PreparedText> texts;
  std::vector<std::vector<float>> expected;
  for (std::size_t i = 0; i < 8; ++i) {
    const std::string text = i % 2 == 0 ? "the quick brown fox" : "the lazy brown fox";
    texts.push_back(on_device.encoder().prepare(text, {}));
    ASSERT_EQ(texts.back().length, texts.front().length);
    expected.push_back(on_host.embed(text));
  }
  const TransferCounts before = on_device.runtime().transfers();
  const std::vector<std::vector<float>> found = on_device.embed(texts, {});
  const TransferCounts after = on_device.runtime().transfers();
  EXPECT_EQ(after.from_device - before.from_device, 1);
  EXPECT_EQ(after.from_device_bytes - before.from_device_bytes, 8 * texts.front().length * 4 * sizeof(float));
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_THAT(found[i], Pointwise(FloatNear(near_enough), expected[i])) << i;
  }
}

TEST_F(PooledEncoders, GiveTheSameVectorsInAWorkerProcess) {
  set_worker_program(GPUX_PROGRAM);
  const TextEmbedder here = embedder("example", TextBatching::throughput),
                     in_a_worker = embedder("example", TextBatching::throughput, true, Isolation::process);
  const Verdict& verdict = in_a_worker.runtime().verdict();
  ASSERT_THAT(verdict.notes, Contains(in_graph));
  ASSERT_THAT(verdict.notes, Contains("the model runs in a worker process"));
  EXPECT_EQ(in_a_worker.encoder().output({}), "sentence_embedding");
  EXPECT_EQ(to_string(in_a_worker.runtime().info().signature.outputs.back().type),
            to_string(here.runtime().info().signature.outputs.back().type));
  EmbedOptions cut, plain;
  cut.dimensions = 5;
  plain.normalize = false;
  for (const EmbedOptions& options : {EmbedOptions(), cut, plain}) {
    EXPECT_EQ(vectors(in_a_worker, options), vectors(here, options));
  }
}

TEST_F(PooledEncoders, AreThoseThatWereAskedFor) {
  const TextEmbedder other = embedder("example", TextBatching::exact, false);
  EXPECT_THAT(other.runtime().verdict().notes, Not(Contains(HasSubstr("pooled"))));
  EXPECT_EQ(other.runtime().info().signature.outputs.size(), 1U);
}

}  // namespace
}  // namespace gpux::embedding
