#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/made_machine.h"
#include "base/recorded_disk.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "runtime/loading/fastest.h"

namespace gpux::runtime {
namespace {

using testing::ElementsAre;

TEST(FastestOf, TakesTheQuickestOfThoseThatWereMeasured) {
  struct Case {
    std::vector<Timing> timings;
    const char* fastest;
  };

  const Case cases[] = {{{}, ""},
                        {{{"cuda", {}, "no driver"}}, ""},
                        {{{"cpu", 3.0, ""}}, "cpu"},
                        {{{"cuda", 1.0, ""}, {"cpu", 3.0, ""}}, "cuda"},
                        {{{"webgpu", 9.0, ""}, {"openvino", 2.0, ""}, {"cpu", 3.0, ""}}, "openvino"},
                        {{{"cuda", {}, "failed"}, {"cpu", 3.0, ""}}, "cpu"},
                        {{{"cuda", 2.0, ""}, {"cpu", 2.0, ""}}, "cuda"}};
  for (const Case& c : cases) EXPECT_EQ(fastest_of(c.timings), c.fastest);
}

LoadOptions asking_for(const std::string& precision, double min_cosine = 0.999) {
  LoadOptions options;
  options.precision = precision;
  options.min_cosine = min_cosine;
  return options;
}

ProviderReport report_of(const std::string& id, const std::string& kind) {
  ProviderReport report;
  report.id = id;
  report.kind = kind;
  return report;
}

/// "encoder:fp32", "encoder in int8:int8*" where it is compared, "…!" where it is refused.
std::vector<std::string> texts_of(const std::vector<FastestCandidate>& candidates) {
  std::vector<std::string> texts;
  for (const FastestCandidate& candidate : candidates) {
    std::string text = candidate.name + ":" + candidate.precision;
    if (candidate.variant != nullptr) text += " of " + candidate.variant->file.string();
    if (candidate.is_compared) text += "*";
    if (!candidate.refusal.empty()) text += "!";
    texts.push_back(std::move(text));
  }
  return texts;
}

TEST(CandidatesOn, KeepTheModelsPrecisionUnlessAnyWillDo) {
  struct Case {
    const char* id;
    const char* kind;
    const char* asked;
    PrecisionChoice choice;
    std::vector<std::string> candidates;
  };

  const std::vector<std::string> encoder{"fp32", "bf16", "int8"}, graphics{"fp32", "fp16"};
  const Case cases[] = {
      {"encoder", "cpu", "", {encoder, true}, {"encoder:fp32"}},
      {"encoder", "cpu", "any", {encoder, true}, {"encoder:fp32", "encoder in bf16:bf16*", "encoder in int8:int8*"}},
      {"encoder", "cpu", "int8", {encoder, true}, {"encoder:int8"}},
      {"encoder", "cpu", "any", {encoder, false}, {"encoder:"}},
      {"encoder",
       "cpu",
       "any",
       {encoder, true, false},
       {"encoder:fp32", "encoder in bf16:bf16*!", "encoder in int8:int8*!"}},
      {"openvino", "gpu", "", {graphics, true}, {"openvino:fp32"}},
      {"openvino", "gpu", "any", {graphics, true}, {"openvino:fp32", "openvino in fp16:fp16*"}},
      {"cuda", "gpu", "", {{}, true}, {"cuda:"}},
      {"cuda", "gpu", "any", {{}, true}, {"cuda:"}},
      {"cpu", "cpu", "any", {{}, true}, {"cpu:"}},
      {"cpu", "cpu", "bf16", {{}, true}, {"cpu:bf16"}}};
  for (const Case& c : cases) {
    const LoadOptions options = asking_for(c.asked);
    EXPECT_EQ(texts_of(candidates_on(report_of(c.id, c.kind), c.choice, options)), c.candidates) << c.id << c.asked;
  }
}

TEST(CandidatesOn, HaveTheVariantsThatTheyCanRun) {
  LoadOptions options = asking_for("any", 0.99);
  options.precision_variants = {
      {.file = "fp16.onnx", .precision = "fp16", .provider = "gpu", .weight_bits = 16, .mean_cosine = 1},
      {.file = "int8.onnx", .precision = "int8", .provider = "cpu", .weight_bits = 7, .mean_cosine = 0.995}};
  const auto candidates = [&](const char* id, const char* kind, const std::vector<std::string>& precisions) {
    return texts_of(candidates_on(report_of(id, kind), {precisions, true}, options));
  };
  EXPECT_THAT(candidates("cpu", "cpu", {}), ElementsAre("cpu:", "cpu in int8:int8 of int8.onnx"));
  EXPECT_THAT(candidates("cuda", "gpu", {}), ElementsAre("cuda:", "cuda in fp16:fp16 of fp16.onnx*"));
  EXPECT_THAT(candidates("encoder", "cpu", {}), ElementsAre("encoder:"));
  EXPECT_THAT(candidates("tensorrt", "gpu", {"fp32", "fp16"}), ElementsAre("tensorrt:fp32", "tensorrt in fp16:fp16*"));
  options.min_cosine = 0.999;
  EXPECT_THAT(candidates("cpu", "cpu", {}), ElementsAre("cpu:", "cpu in int8:int8 of int8.onnx!"));
  EXPECT_EQ(candidates_on(report_of("cpu", "cpu"), {}, options).back().refusal, "mean cosine 0.995000 is below 0.999");
  options.precision = "int8";
  EXPECT_THAT(candidates("cpu", "cpu", {}), ElementsAre("cpu:int8 of int8.onnx"));
}

TEST(HeldTo, LeavesOutWhatIsNotNearEnough) {
  const Timing timed{"encoder in int8", 1.5, {}, 0.9989999};
  EXPECT_EQ(held_to(0.99, timed).milliseconds, 1.5);
  EXPECT_EQ(held_to(0.9989999, timed).milliseconds, 1.5);
  const Timing out = held_to(0.999, timed);
  EXPECT_EQ(out.milliseconds, std::nullopt);
  EXPECT_EQ(out.failure, "mean cosine 0.998999 is below 0.999");
  EXPECT_EQ(held_to(1, {"cpu", 2.0, {}}).milliseconds, 2.0);
  EXPECT_EQ(held_to(1, {"cpu", {}, "failed"}).failure, "failed");
}

std::vector<FastestCandidate> named(const std::vector<std::string>& names) {
  std::vector<FastestCandidate> candidates;
  for (const std::string& name : names) {
    candidates.emplace_back();
    candidates.back().name = name;
  }
  return candidates;
}

class ChooseFastest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("gpux_fastest_" + std::to_string(::getpid()));
    file_ = folder_ / "fastest" / "key.json";
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  FastestChoice choose(const std::vector<std::string>& names) { return choose_among(named(names)); }

  FastestChoice choose_among(const std::vector<FastestCandidate>& candidates) {
    measured_.clear();
    return choose_fastest(candidates, file_, [&](const FastestCandidate& candidate) {
      measured_.push_back(candidate.name);
      if (candidate.name == "broken") return Timing{candidate.name, {}, "it is broken"};
      if (candidate.name == "webgpu in fp16") return Timing{candidate.name, 1.5, {}, 0.9995};
      return Timing{candidate.name, candidate.name == "cpu" ? 5.0 : 2.5, {}};
    });
  }

  std::filesystem::path folder_, file_;
  std::vector<std::string> measured_;
};

TEST_F(ChooseFastest, MeasuresOnceAndRemembers) {
  const test::RecordedDisk disk;
  const FastestChoice first = choose({"broken", "webgpu", "cpu"});
  EXPECT_EQ(disk.risk_of_replaced(file_), "");
  EXPECT_EQ(first.candidate, "webgpu");
  EXPECT_FALSE(first.remembered);
  EXPECT_THAT(measured_, ElementsAre("broken", "webgpu", "cpu"));
  const FastestChoice second = choose({"broken", "webgpu", "cpu"});
  EXPECT_EQ(second.candidate, "webgpu");
  EXPECT_TRUE(second.remembered);
  EXPECT_TRUE(measured_.empty());
  ASSERT_EQ(second.timings.size(), 3U);
  EXPECT_EQ(second.timings[0].failure, "it is broken");
  EXPECT_EQ(second.timings[1].milliseconds, 2.5);
}

TEST_F(ChooseFastest, RemembersPrecisionsWithTheirCosinesAndRefusals) {
  std::vector<FastestCandidate> candidates = named({"webgpu", "webgpu in fp16", "cpu", "cpu in int8"});
  candidates.back().refusal = "too far off";
  for (const bool remembered : {false, true}) {
    const FastestChoice choice = choose_among(candidates);
    EXPECT_EQ(choice.remembered, remembered);
    EXPECT_EQ(choice.candidate, "webgpu in fp16");
    EXPECT_EQ(choice.timings.at(1).mean_cosine, 0.9995);
    EXPECT_EQ(choice.timings.at(0).mean_cosine, std::nullopt);
    EXPECT_EQ(choice.timings.at(3).failure, "too far off");
    EXPECT_EQ(choice.timings.at(3).milliseconds, std::nullopt);
    EXPECT_EQ(measured_.size(), remembered ? 0U : 3U);
  }
}

TEST_F(ChooseFastest, MeasuresAgainWhereWhatIsKeptDoesNotFit) {
  const char* kept[] = {
      "",
      "{",
      "[]",
      "{}",
      R"({"candidate": 3, "timings": []})",
      R"({"candidate": "cuda", "timings": [{"candidate": "cuda", "milliseconds": 1}]})",
      R"({"provider": "webgpu", "timings": [{"provider": "webgpu", "milliseconds": 1}, {"provider": "cpu", "milliseconds": 2}]})",
      R"({"candidate": "webgpu in fp16", "timings": [{"candidate": "webgpu in fp16", "milliseconds": 1}, {"candidate": "cpu", "milliseconds": 2}]})",
      R"({"candidate": "cpu", "timings": [{"candidate": "webgpu", "milliseconds": 1}, {"candidate": "cpu", "milliseconds": 2}]})",
      R"({"candidate": "webgpu", "timings": [{"candidate": "webgpu", "milliseconds": "1"}, {"candidate": "cpu"}]})"};
  for (const char* text : kept) {
    write_file_atomically(file_, std::string_view(text));
    EXPECT_EQ(choose({"webgpu", "cpu"}).candidate, "webgpu");
    EXPECT_THAT(measured_, ElementsAre("webgpu", "cpu")) << text;
  }
}

TEST_F(ChooseFastest, DoesNotRememberThatNothingWorked) {
  EXPECT_EQ(choose({"broken"}).candidate, "");
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(ChooseFastest, ChoosesAlsoWhereNothingCanBeKept) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "fastest") << "a file where a folder should be";
  EXPECT_EQ(choose({"webgpu", "cpu"}).candidate, "webgpu");
  EXPECT_FALSE(choose({"webgpu", "cpu"}).remembered);
}

TEST(FastestKey, ChangesWithWhateverChangesTheTimes) {
  const std::filesystem::path add = GPUX_SOURCE_DIR "/tests/models/add.onnx";
  const std::filesystem::path scalar = GPUX_SOURCE_DIR "/tests/models/scalar.onnx";
  const ModelInfo info = ModelInspector::inspect(add);
  std::vector<FastestCandidate> candidates = named({"webgpu", "cpu"});
  candidates[0].provider.library = add;
  const Machine& machine = Machine::this_one();
  const std::string key = fastest_key(add, info, {}, candidates, machine);
  EXPECT_EQ(key.size(), 64U);
  EXPECT_EQ(fastest_key(add, info, {}, candidates, machine), key);
  EXPECT_NE(fastest_key(scalar, info, {}, candidates, machine), key);
  LoadOptions options;
  options.precision = "fp16";
  EXPECT_NE(fastest_key(add, info, options, candidates, machine), key);
  const test::MadeMachine other_machine("pci 0000:01:00.0 10de:2330 030200\n");
  EXPECT_NE(fastest_key(add, info, {}, candidates, other_machine), key);
  options = {};
  options.intra_threads = 3;
  EXPECT_NE(fastest_key(add, info, options, candidates, machine), key);
  options = asking_for("any", 0.99);
  EXPECT_NE(fastest_key(add, info, options, candidates, machine),
            fastest_key(add, info, asking_for("any"), candidates, machine));
  candidates[0].provider.library = scalar;
  EXPECT_NE(fastest_key(add, info, {}, candidates, machine), key);
  candidates[0].provider.library = add;
  candidates[0].precision = "fp32";
  EXPECT_NE(fastest_key(add, info, {}, candidates, machine), key);
  candidates[0].precision.clear();
  const PrecisionVariant variant{.file = add, .precision = "int8", .provider = "cpu"}, other{.file = scalar};
  candidates[1].variant = &variant;
  const std::string with_variant = fastest_key(add, info, {}, candidates, machine);
  EXPECT_NE(with_variant, key);
  candidates[1].variant = &other;
  EXPECT_NE(fastest_key(add, info, {}, candidates, machine), with_variant);
  candidates[1].variant = nullptr;
  candidates.pop_back();
  EXPECT_NE(fastest_key(add, info, {}, candidates, machine), key);
}

TEST(FastestKey, ChangesWithExternalWeightsOfTheSameSize) {
  const test::TemporaryFolder folder;
  for (const char* name : {"external_data.onnx", "external_weight.bin", "external_bias.bin"}) {
    folder.write(name, read_file(std::string(GPUX_SOURCE_DIR "/tests/models/") + name));
  }
  const std::filesystem::path model = folder.path() / "external_data.onnx";
  const std::string weights = read_file(folder.path() / "external_weight.bin");
  const std::string others(weights.size(), '\0');
  ASSERT_NE(weights, others);
  const PrecisionVariant variant{.file = model, .precision = "int8", .provider = "cpu"};
  std::vector<FastestCandidate> of_variant = named({"cpu"});
  of_variant[0].variant = &variant;
  const std::filesystem::path add = GPUX_SOURCE_DIR "/tests/models/add.onnx";
  const auto key = [](const std::filesystem::path& file, const std::vector<FastestCandidate>& candidates) {
    return fastest_key(file, ModelInspector::inspect(file), {}, candidates, Machine::this_one());
  };
  const std::string before = key(model, named({"cpu"})), variant_before = key(add, of_variant);
  folder.write("external_weight.bin", others);
  EXPECT_NE(key(model, named({"cpu"})), before);
  EXPECT_NE(key(add, of_variant), variant_before);
  folder.write("external_weight.bin", weights);
  EXPECT_EQ(key(model, named({"cpu"})), before);
  EXPECT_EQ(key(add, of_variant), variant_before);
}

}  // namespace
}  // namespace gpux::runtime
