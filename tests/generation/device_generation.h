#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "generation/engine.h"
#include "gpux/error.h"
#include "importer/import_model.h"
#include "onnx/graph_writer.h"

namespace gpux::generation {

inline constexpr std::size_t vocabulary = 204, heads = 2, head_size = 16, hidden_size = heads * head_size;

inline std::vector<float> made_weights(std::size_t count, unsigned seed) {
  std::vector<float> weights(count);
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    weights[i] = static_cast<float>(seed >> 8) / 16777216.0F - 0.5F;
  }
  return weights;
}

/// A decoder of one layer whose keys and values come from products with one, and go to such: the example provider,
/// which computes nothing else, has them in its memory. `mixes_rows`: a text's logits depend on the others of its run.
inline void write_decoder_with_products(const std::filesystem::path& file, bool mixes_rows = false) {
  onnx::GraphWriter graph("decoder");
  const auto weights = [&](const char* name, std::size_t rows, std::size_t columns, unsigned seed) {
    return graph.floats(name, made_weights(rows * columns, seed),
                        {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)});
  };
  const auto input = [&](const char* name, const char* length) {
    graph.input(name, ElementType::int64, std::array<onnx::WrittenSize, 2>{"batch", length});
  };
  input("input_ids", "sequence");
  input("attention_mask", "total_sequence");
  const auto sizes = [](const char* length) {
    return std::array<onnx::WrittenSize, 4>{"batch", std::int64_t{heads}, length, std::int64_t{head_size}};
  };
  std::vector<std::string> past, present;
  const std::string one = graph.scalar(1);
  for (const char* part : {"key", "value"}) {
    const std::string name = std::string("past_key_values.0.") + part;
    graph.input(name, ElementType::float32, sizes("past_sequence"));
    graph.output(std::string("present.0.") + part, ElementType::float32, sizes("total_sequence"));
    past.push_back(graph.node("Mul", {name, one}));
    present.push_back(std::string("computed.") + part);
  }
  const std::string tokens = graph.node("Gather", {weights("words", vocabulary, hidden_size, 1), "input_ids"});
  const auto projected = [&](const char* name, unsigned seed) {
    return graph.node("MatMul", {tokens, weights(name, hidden_size, hidden_size, seed)});
  };
  const std::string axis = graph.integers(std::vector<std::int64_t>{1});
  const std::string counted = graph.node("ReduceSum", {"attention_mask", axis}, {{"keepdims", std::int64_t{0}}});
  const std::int64_t int32 = 6;
  const std::string last = graph.node("Cast", {graph.node("Sub", {counted, graph.integer(1)})}, {{"to", int32}});
  const std::string total = graph.node("Gather", {graph.node("Shape", {"attention_mask"}), graph.integer(1)});
  const std::string query = projected("query", 2), key = projected("key", 3), value = projected("value", 4);
  graph.contributed_node("GroupQueryAttention",
                         {query, key, value, past[0], past[1], last, graph.node("Cast", {total}, {{"to", int32}})},
                         {{"num_heads", std::int64_t{heads}}, {"kv_num_heads", std::int64_t{heads}}},
                         {"attended", present[0], present[1]});
  graph.node("Mul", {present[0], one}, {}, "present.0.key");
  graph.node("Mul", {present[1], one}, {}, "present.0.value");
  std::string hidden = graph.node("Add", {"attended", tokens});
  if (mixes_rows) {
    hidden = graph.node("Add", {hidden, graph.node("ReduceMax", {hidden}, {{"axes", std::vector<std::int64_t>{0}}})});
  }
  graph.output("logits", ElementType::float32,
               std::array<onnx::WrittenSize, 3>{"batch", "sequence", std::int64_t{vocabulary}});
  graph.node("MatMul", {hidden, weights("head", hidden_size, vocabulary, 5)}, {}, "logits");
  graph.write(file, 17, 8);
}

/// Tokens of texts, and what was counted while they were generated.
struct Outcome {
  std::vector<std::vector<std::uint32_t>> texts;
  EngineStatistics statistics;
  TransferCounts transfers;
};

inline EngineRequest request(std::size_t number) {
  EngineRequest made;
  // Many begin alike, and the lengths differ.
  for (std::size_t i = 0; i < 8; ++i) made.prompt.push_back(static_cast<std::uint32_t>(20 + number % 2 * 40 + i));
  for (std::size_t i = 0; i < (number == 3 ? 60 : number * 5 % 23); ++i) {
    made.prompt.push_back(static_cast<std::uint32_t>(5 + (number * 31 + i * i * 7) % 150));
  }
  made.settings.max_tokens = 12 + number % 5 * 6;
  made.settings.ignores_end = true;
  made.settings.temperature = number % 3 == 0 ? 0.8F : 0.0F;
  made.settings.seed = number;
  return made;
}

inline Outcome generated(Engine& engine, const std::vector<EngineRequest>& requests, bool together) {
  const EngineStatistics before = engine.statistics();
  const TransferCounts copied = engine.runtime().transfers();
  Outcome outcome;
  std::vector<std::future<std::vector<std::uint32_t>>> answers;
  for (EngineRequest made : requests) {
    auto promise = std::make_shared<std::promise<std::vector<std::uint32_t>>>();
    answers.push_back(promise->get_future());
    made.on_end = [promise](const std::optional<Error>& error, Completion completion) {
      EXPECT_FALSE(error.has_value()) << error->message();
      promise->set_value(std::move(completion.tokens));
    };
    (void)engine.submit(std::move(made));
    if (!together) answers.back().wait();
  }
  for (auto& answer : answers) outcome.texts.push_back(answer.get());
  outcome.statistics = engine.statistics();
  outcome.statistics.steps -= before.steps;
  outcome.transfers = engine.runtime().transfers();
  outcome.transfers.to_device -= copied.to_device;
  outcome.transfers.from_device -= copied.from_device;
  outcome.transfers.from_device_bytes -= copied.from_device_bytes;
  outcome.transfers.to_device_bytes -= copied.to_device_bytes;
  return outcome;
}

inline std::vector<EngineRequest> requests(std::size_t count) {
  std::vector<EngineRequest> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(request(i));
  return all;
}

/// Generation on a device beside that of the CPU, with a tiny decoder.
class DeviceCachesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(GPUX_DEPS_DIR "/onnxruntime/lib"))
      GTEST_SKIP() << "no ONNX Runtime: scripts/setup fetches it";
    importer::import_model(GPUX_SOURCE_DIR "/tests/generation/references/qwen3", model());
  }

  [[nodiscard]] std::filesystem::path model() const { return folder_.path() / "model"; }

  [[nodiscard]] std::unique_ptr<Engine> engine(const LoadOptions& load, const GeneratorOptions& options = {}) const {
    const ModelFiles files = read_model_files(model());
    return std::make_unique<Engine>(Runtime(model() / "model.onnx", load), text::Tokenizer::from_file(files.tokenizer),
                                    files, options);
  }

  static LoadOptions on_cpu() { return {.provider = "cpu", .intra_threads = 1}; }

  static LoadOptions on(const std::string& provider, const std::string& library) {
    LoadOptions options;
    options.provider = provider;
    options.provider_libraries = {{provider, library}};
    options.intra_threads = 1;
    return options;
  }

  // The texts of the CPU, one by one and all at the same time; the runs that they share are far fewer.
  void expect_tokens_of_the_cpu(const LoadOptions& device, const GeneratorOptions& options = {}) const {
    const std::vector<EngineRequest> all = requests(16);
    const auto host = engine(on_cpu(), options), there = engine(device, options);
    const Outcome expected = generated(*host, all, true);
    EXPECT_THAT(there->verdict().notes, testing::Contains(testing::HasSubstr("texts share runs")));
    const Outcome alone = generated(*there, all, false);
    EXPECT_EQ(alone.texts, expected.texts);
    const Outcome together = generated(*there, all, true);
    EXPECT_EQ(together.texts, expected.texts);
    EXPECT_EQ(together.statistics.failed, 0);
    EXPECT_LT(together.statistics.steps, alone.statistics.steps / 2);
  }

  // A run brings the logits of its rows back, and nothing else, however long the texts are.
  void expect_copies_of_logits_alone(const LoadOptions& device) const {
    GeneratorOptions options;
    options.reuses_prefixes = false;
    const auto there = engine(device, options);
    std::vector<EngineRequest> one = requests(1);
    one.front().prompt.resize(1);
    one.front().settings.max_tokens = 60;
    const Outcome outcome = generated(*there, one, true);
    EXPECT_EQ(outcome.transfers.from_device, outcome.statistics.steps);
    EXPECT_EQ(outcome.transfers.from_device_bytes, outcome.statistics.steps * there->vocabulary_size() * sizeof(float));
    // Ids and mask.
    EXPECT_LT(outcome.transfers.to_device_bytes, outcome.statistics.steps * 80 * 2 * sizeof(std::int64_t));
  }

  const test::TemporaryFolder folder_;
};

}  // namespace gpux::generation
