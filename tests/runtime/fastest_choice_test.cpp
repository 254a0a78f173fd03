#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "runtime/fastest.h"

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

class ChooseFastest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("gpux_fastest_" + std::to_string(::getpid()));
    file_ = folder_ / "fastest" / "key.json";
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  FastestChoice choose(const std::vector<std::string>& ids) {
    std::vector<ProviderReport> candidates;
    for (const std::string& id : ids) {
      candidates.emplace_back();
      candidates.back().id = id;
    }
    measured_.clear();
    return choose_fastest(candidates, file_, [&](const ProviderReport& candidate) {
      measured_.push_back(candidate.id);
      if (candidate.id == "broken") return Timing{candidate.id, {}, "it is broken"};
      return Timing{candidate.id, candidate.id == "cpu" ? 5.0 : 2.5, {}};
    });
  }

  std::filesystem::path folder_, file_;
  std::vector<std::string> measured_;
};

TEST_F(ChooseFastest, MeasuresOnceAndRemembers) {
  const FastestChoice first = choose({"broken", "webgpu", "cpu"});
  EXPECT_EQ(first.provider, "webgpu");
  EXPECT_FALSE(first.remembered);
  EXPECT_THAT(measured_, ElementsAre("broken", "webgpu", "cpu"));
  const FastestChoice second = choose({"broken", "webgpu", "cpu"});
  EXPECT_EQ(second.provider, "webgpu");
  EXPECT_TRUE(second.remembered);
  EXPECT_TRUE(measured_.empty());
  ASSERT_EQ(second.timings.size(), 3U);
  EXPECT_EQ(second.timings[0].failure, "it is broken");
  EXPECT_EQ(second.timings[1].milliseconds, 2.5);
}

TEST_F(ChooseFastest, MeasuresAgainWhereWhatIsKeptDoesNotFit) {
  const char* kept[] = {
      "",
      "{",
      "[]",
      "{}",
      R"({"provider": 3, "timings": []})",
      R"({"provider": "cuda", "timings": [{"provider": "cuda", "milliseconds": 1}]})",
      R"({"provider": "cpu", "timings": [{"provider": "webgpu", "milliseconds": 1}, {"provider": "cpu", "milliseconds": 2}]})",
      R"({"provider": "webgpu", "timings": [{"provider": "webgpu", "milliseconds": "1"}, {"provider": "cpu"}]})"};
  for (const char* text : kept) {
    write_file_atomically(file_, std::string_view(text));
    EXPECT_EQ(choose({"webgpu", "cpu"}).provider, "webgpu");
    EXPECT_THAT(measured_, ElementsAre("webgpu", "cpu")) << text;
  }
}

TEST_F(ChooseFastest, DoesNotRememberThatNothingWorked) {
  EXPECT_EQ(choose({"broken"}).provider, "");
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(ChooseFastest, ChoosesAlsoWhereNothingCanBeKept) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "fastest") << "a file where a folder should be";
  EXPECT_EQ(choose({"webgpu", "cpu"}).provider, "webgpu");
  EXPECT_FALSE(choose({"webgpu", "cpu"}).remembered);
}

TEST(FastestKey, ChangesWithWhateverChangesTheTimes) {
  const std::filesystem::path add = GPUX_SOURCE_DIR "/tests/models/add.onnx";
  const std::filesystem::path scalar = GPUX_SOURCE_DIR "/tests/models/scalar.onnx";
  const ModelInfo info = ModelInspector::inspect(add);
  std::vector<ProviderReport> candidates(2);
  candidates[0].id = "webgpu";
  candidates[0].library = add;
  candidates[1].id = "cpu";
  const std::string key = fastest_key(add, info, {}, candidates);
  EXPECT_EQ(key.size(), 64U);
  EXPECT_EQ(fastest_key(add, info, {}, candidates), key);
  EXPECT_NE(fastest_key(scalar, info, {}, candidates), key);
  LoadOptions options;
  options.precision = "fp16";
  EXPECT_NE(fastest_key(add, info, options, candidates), key);
  options = {};
  options.intra_threads = 3;
  EXPECT_NE(fastest_key(add, info, options, candidates), key);
  candidates[0].library = scalar;
  EXPECT_NE(fastest_key(add, info, {}, candidates), key);
  candidates[0].library = add;
  candidates.pop_back();
  EXPECT_NE(fastest_key(add, info, {}, candidates), key);
}

}  // namespace
}  // namespace gpux::runtime
