// Generation with keys and values on the example provider's device: the tokens of the CPU, in runs that texts share.
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "device_generation.h"
#include "generation/decoder.h"

namespace gpux::generation {
namespace {

namespace fs = std::filesystem;

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

TEST_F(ExampleCaches, AreNotKeptInFiles) {
  const test::TemporaryFolder folder;
  GeneratorOptions options;
  options.prompt_cache = folder.path() / "prompts";
  try {
    (void)engine(device(), options);
    ADD_FAILURE() << "a folder that is not used";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.message(), testing::HasSubstr("keys and values of this model stay in memory of a device"));
  }
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

// A text that has ended leaves its prompt in the rows of one that goes on, and the next text begins with it.
TEST_F(ExampleCaches, KeepPromptsWhileOthersRun) {
  std::vector<EngineRequest> two = requests(2);
  two.front().prompt.resize(8);
  two.front().settings.max_tokens = 16;
  two.front().settings.temperature = 0;
  two.back().settings.max_tokens = 100;
  const std::vector<EngineRequest> again{two.front()};
  const std::vector<std::uint32_t> expected = generated(*engine(on_cpu()), again, true).texts.front();
  const auto there = engine(device());
  EXPECT_EQ(generated(*there, two, true).texts.front(), expected);
  EXPECT_EQ(generated(*there, again, true).texts.front(), expected);
  EXPECT_GT(there->statistics().reused_tokens, 0);
}

// Than the prompts that are tried when the model is loaded.
TEST_F(ExampleCaches, TakeAShorterContext) {
  for (const std::size_t context_length : {2U, 16U}) {
    GeneratorOptions options;
    options.context_length = context_length;
    std::vector<EngineRequest> one = requests(1);
    one.front().prompt.resize(1);
    one.front().settings.max_tokens = context_length - 1;
    const Outcome expected = generated(*engine(on_cpu(), options), one, true);
    EXPECT_EQ(generated(*engine(device(), options), one, true).texts, expected.texts) << context_length;
  }
}

TEST_F(ExampleCaches, SayNothingOfRunsThatWereNotTried) {
  const Decoder decoder(Runtime(model() / "model.onnx", device()), 1);
  EXPECT_THAT(decoder.verdict().notes,
              testing::Contains("keys and values stay on the device, where the model writes them"));
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
