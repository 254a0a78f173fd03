// Generation with keys and values on the example provider's device: the tokens of the CPU, in runs that texts share.
#include <array>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "device_generation.h"
#include "onnx/graph_writer.h"

namespace gpux::generation {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t vocabulary = 204, heads = 2, head_size = 16, hidden_size = heads * head_size;

std::vector<float> made_weights(std::size_t count, unsigned seed) {
  std::vector<float> weights(count);
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    weights[i] = static_cast<float>(seed >> 8) / 16777216.0F - 0.5F;
  }
  return weights;
}

// A decoder of one layer whose keys and values come from products with one, and go to such: the example provider, which
// computes nothing else, has them in its memory.
// `mixes_rows`: a text's logits depend on the others of its run.
void write_decoder_with_products(const fs::path& file, bool mixes_rows = false) {
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

class ExampleCaches : public DeviceCachesTest {
 protected:
  void SetUp() override {
    DeviceCachesTest::SetUp();
    if (!IsSkipped()) write_decoder_with_products(model() / "model.onnx");
  }

  static LoadOptions device() { return on("example", GPUX_EXAMPLE_PROVIDER); }
};

TEST_F(ExampleCaches, GiveTheTokensOfTheCpu) {
  expect_tokens_of_the_cpu(device());
}

// The prompts of others begin alike; slots are taken by others, and are fewer than texts.
TEST_F(ExampleCaches, GiveTheTokensOfTheCpuInFewSlots) {
  GeneratorOptions options;
  options.max_sequences = 3;
  expect_tokens_of_the_cpu(device(), options);
}

// Texts begin anew where the memory is short.
TEST_F(ExampleCaches, GiveTheTokensOfTheCpuWhereTextsAreInterrupted) {
  GeneratorOptions options;
  options.context_length = 100;
  options.cache_bytes = engine(device(), options)->memory_needed(150);
  const auto there = engine(device(), options);
  const Outcome expected = generated(*engine(on_cpu(), options), requests(16), false);
  const Outcome together = generated(*there, requests(16), true);
  EXPECT_EQ(together.texts, expected.texts);
  EXPECT_GT(together.statistics.preempted, 0);
}

// Beyond a block, beside texts that end earlier.
TEST_F(ExampleCaches, GrowInBlocks) {
  std::vector<EngineRequest> some = requests(4);
  some.front().settings.max_tokens = 300;
  some.back().settings.max_tokens = 290;
  const Outcome expected = generated(*engine(on_cpu()), some, true);
  EXPECT_EQ(generated(*engine(device()), some, true).texts, expected.texts);
}

// A run copies nothing: only the first positions of a text go there, by way of the host, since the provider has no
// operator to move them with.
TEST_F(ExampleCaches, StayOnTheDevice) {
  const auto there = engine(device());
  (void)generated(*there, requests(1), true);
  std::vector<EngineRequest> one = requests(2);
  one.erase(one.begin());
  one.front().settings.max_tokens = 200;
  const Outcome outcome = generated(*there, one, true);
  EXPECT_GT(outcome.statistics.steps, 200);
  EXPECT_EQ(outcome.transfers.from_device_bytes, 2 * heads * head_size * sizeof(float));
  EXPECT_EQ(outcome.transfers.to_device, 2);  // keys and values
}

// The text that outgrows the device's memory ends with the error; the other one goes on.
TEST_F(ExampleCaches, EndTheLongestTextWhereTheDeviceHasNoMemory) {
  std::vector<EngineRequest> texts = requests(3);
  for (EngineRequest& text : texts) text.settings.max_tokens = 300;
  const Outcome expected = generated(*engine(on_cpu()), texts, true);
  LoadOptions small = device();
  small.provider_options = {{"example", {{"fail", "out-of-memory:700000"}}, ""}};
  const auto there = engine(small);
  const auto ended = std::make_shared<std::promise<std::optional<Error>>>();
  EngineRequest longest = texts.back();
  longest.on_end = [ended](const std::optional<Error>& failure, const Completion&) { ended->set_value(failure); };
  (void)there->submit(std::move(longest));
  texts.pop_back();
  const Outcome others = generated(*there, texts, true);
  EXPECT_EQ(others.texts.front(), expected.texts.at(0));
  EXPECT_EQ(others.texts.back(), expected.texts.at(1));
  const std::optional<Error> error = ended->get_future().get();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::resource_exhausted);
}

TEST_F(ExampleCaches, RunOneByOneWhereRowsDependOnOthers) {
  write_decoder_with_products(model() / "model.onnx", true);
  const auto there = engine(device());
  EXPECT_THAT(there->verdict().notes, testing::Contains(testing::HasSubstr("each text runs alone")));
  EXPECT_EQ(generated(*there, requests(8), true).texts, generated(*engine(on_cpu()), requests(8), false).texts);
}

// With room for one text alone.
TEST_F(ExampleCaches, RunOneByOneWhereTheDeviceHasNoMemoryForSeveral) {
  LoadOptions small = device();
  small.provider_options = {{"example", {{"fail", "out-of-memory:350000"}}, ""}};
  const auto there = engine(small);
  EXPECT_THAT(there->verdict().notes, testing::Contains(testing::HasSubstr("each text runs alone")));
  EXPECT_EQ(generated(*there, requests(1), true).texts, generated(*engine(on_cpu()), requests(1), true).texts);
}

}  // namespace
}  // namespace gpux::generation
