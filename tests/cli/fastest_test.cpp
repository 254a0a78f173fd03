// `--provider fastest` with a small text encoder: what is timed, what is refused, what is opened.
#include <cmath>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "cli/program.h"
#include "pipeline/task_folder.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::Not;

using Words = std::vector<std::string>;

/// An encoder of random weights, as sentence-transformers' folders have them, and the provider that comes with gpux.
class FastestEncoder : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = GPUX_SOURCE_DIR "/tests/embedding/references/bert-cls";
    ASSERT_EQ(gpux_.run({"import", folder, "-t", "small"}).code, 0);
  }

  [[nodiscard]] Outcome embed(const Words& more) const {
    Words words{"embed", "--model", "small", "--provider", "fastest", "a text", "and another"};
    words.insert(words.end(), more.begin(), more.end());
    Outcome outcome = gpux_.run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  }

  /// What the only choice that is kept says.
  [[nodiscard]] fs::path kept() const {
    fs::path only;
    for (const auto& entry : fs::directory_iterator(gpux_.home() / "fastest")) {
      EXPECT_TRUE(only.empty());
      only = entry.path();
    }
    return only;
  }

  /// Its timings by their candidates' names. The decoder provider is there, too, and takes no encoder.
  [[nodiscard]] std::map<std::string, Json> timings() const {
    std::map<std::string, Json> timings;
    const Json choice = Json::parse(read_file(kept()));
    for (const Json& timing : choice.at("timings")) {
      const auto name = timing.at("candidate").get<std::string>();
      if (name.starts_with("decoder")) {
        EXPECT_EQ(timing.value("failure", ""), "it supports none of the model's nodes") << name;
      } else {
        timings[name] = timing;
      }
    }
    return timings;
  }

  Program gpux_;
};

TEST_F(FastestEncoder, KeepsThePrecisionUnlessAnyWillDo) {
  EXPECT_THAT(embed({}).err, AllOf(HasSubstr(" in fp32; "), Not(HasSubstr("encoder in "))));
  EXPECT_THAT(timings(), ElementsAre(Key("cpu"), Key("encoder")));
}

TEST_F(FastestEncoder, OpensThePrecisionThatWon) {
  const Outcome first = embed({"--precision", "any", "--min-cosine", "0.9"});
  EXPECT_THAT(first.err, AllOf(HasSubstr("; measured a run: "), Not(HasSubstr("not encoder"))));
  const auto timed = timings();
  ASSERT_THAT(timed, ElementsAre(Key("cpu"), Key("encoder"), Key("encoder in bf16"), Key("encoder in int8"),
                                 Key("encoder in int8-bf16")));
  for (const char* name : {"encoder in bf16", "encoder in int8", "encoder in int8-bf16"}) {
    EXPECT_GT(timed.at(name).at("mean_cosine"), 0.99) << name;
    EXPECT_LT(timed.at(name).at("mean_cosine"), 1) << name;
    EXPECT_TRUE(timed.at(name).contains("milliseconds")) << name;
  }
  // Whichever won here: each would be opened as it was timed.
  const fs::path file = kept();
  const Json choice = Json::parse(read_file(file));
  std::map<std::string, std::string> vectors;
  for (const auto& [name, words] :
       std::map<std::string, std::string>{{"encoder", "ran on encoder in fp32"},
                                          {"encoder in bf16", "ran on encoder in bf16"},
                                          {"encoder in int8", "ran on encoder in int8"},
                                          {"encoder in int8-bf16", "ran on encoder in int8-bf16"},
                                          {"cpu", "ran on cpu in fp32"}}) {
    Json turned = choice;
    turned["candidate"] = name;
    for (Json& timing : turned["timings"]) timing["milliseconds"] = timing.at("candidate") == name ? 1 : 2;
    write_file_atomically(file, turned.dump());
    const Outcome again = embed({"--precision", "any", "--min-cosine", "0.9"});
    const std::size_t nodes = again.err.find(" ("), end = again.err.find(')', nodes);
    ASSERT_NE(end, std::string::npos) << again.err;
    EXPECT_EQ(again.err.substr(0, nodes) + again.err.substr(end + 1, again.err.find(';') - end - 1), "gpux: " + words);
    EXPECT_THAT(again.err, HasSubstr("measured before a run: "));
    vectors[name] = again.out;
  }
  EXPECT_EQ(
      vectors.at("encoder in int8"),
      gpux_.run({"embed", "--model", "small", "--provider", "encoder", "--precision", "int8", "a text", "and another"})
          .out);
  EXPECT_NE(vectors.at("encoder in int8"), vectors.at("encoder in bf16"));
  EXPECT_NE(vectors.at("encoder"), vectors.at("encoder in bf16"));
}

TEST_F(FastestEncoder, RefusesPrecisionsThatAreTooFarOff) {
  const Outcome exact = embed({"--precision", "any", "--min-cosine", "1"});
  EXPECT_THAT(exact.err, AllOf(HasSubstr(" in fp32; "), HasSubstr("not encoder in bf16: mean cosine 0.99"),
                               HasSubstr("not encoder in int8: mean cosine 0.99"), HasSubstr(" is below 1")));
  const auto timed = timings();
  const double bf16 = timed.at("encoder in bf16").at("mean_cosine");
  const double int8 = timed.at("encoder in int8").at("mean_cosine");
  ASSERT_LT(int8, bf16);
  EXPECT_FALSE(timed.at("encoder in int8").contains("milliseconds"));
  fs::remove_all(gpux_.home() / "fastest");
  const std::string between = std::to_string((int8 + bf16) / 2);
  EXPECT_THAT(embed({"--precision", "any", "--min-cosine", between}).err,
              AllOf(HasSubstr("not encoder in int8: mean cosine 0.99"), HasSubstr("encoder in bf16 "),
                    Not(HasSubstr("not encoder in bf16"))));
}

// What `fastest` asks of processes of its own.
TEST_F(FastestEncoder, MeasuresModelsOnWhatTheyAreFor) {
  const auto measured = [&](const std::string& model, const Words& more) {
    Words words{"bench", model, "--samples-of", model, "--compare", "--runs", "1", "--warmup", "0", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = gpux_.run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  };
  for (const auto& [name, what] : std::map<std::string, std::string>{
           {"", "64 recorded texts"}, {"classify-bert", "recorded texts"}, {"rank-mpnet", "recorded texts"}}) {
    const std::string source =
        name.empty() ? GPUX_SOURCE_DIR "/tests/embedding/references/bert-cls" : write_task_folder(gpux_.folder(), name);
    const std::string folder = gpux_.folder().path() / ("made-" + name);
    ASSERT_EQ(gpux_.run({"import", source, "-o", folder}).code, 0) << name;
    const Json said = measured(folder + "/model.onnx", {"--provider", "encoder,", "--precision", "int8"});
    EXPECT_EQ(said.at("verdict").at("active").at(0), "encoder") << name;
    EXPECT_EQ(said.at("verdict").at("precision"), "int8") << name;
    EXPECT_EQ(said.at("measured_on"), what) << name;
    EXPECT_GT(said.at("agreement").at("mean_cosine"), 0.9) << name;
    EXPECT_LT(said.at("agreement").at("mean_cosine"), 1) << name;
    EXPECT_LE(said.at("agreement").at("least_cosine"), said.at("agreement").at("mean_cosine")) << name;
  }
  const Json other = measured(model("matmul_chain.onnx"), {"--provider", "cpu"});
  EXPECT_EQ(other.at("measured_on"), "made up inputs");
  EXPECT_EQ(other.at("agreement").at("mean_cosine"), 1);
}

TEST_F(FastestEncoder, ListsAndNamesWhatTheProviderIs) {
  const Outcome unknown = gpux_.run({"embed", "--model", "small", "--provider", "encodre", "a"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("did you mean 'encoder'?"), Not(HasSubstr("libgpux_encoder_provider"))));
  const Outcome half =
      gpux_.run({"embed", "--model", "small", "--provider", "encoder", "--precision", "fp16", "--strict", "a"});
  EXPECT_EQ(half.code, 5);
  EXPECT_THAT(half.err, HasSubstr("encoder computes in fp32, bf16, int8, int8-bf16, not in fp16"));
}

}  // namespace
}  // namespace gpux::test
