// The levels and variables of op-dbus, as gpux embed takes them.
#include <cmath>
#include <filesystem>
#include <numeric>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "cli/program.h"
#include "onnx/graph_writer.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using Environment = std::vector<std::pair<std::string, std::string>>;

const std::string low = "paraphrase-MiniLM-L3-v2", medium = "paraphrase-MiniLM-L6-v2", high = "all-mpnet-base-v2";

class Level : public testing::Test {
 protected:
  /// As op-dbus keeps a model: nothing but the two files. The vectors of its tokens are made up.
  void keep(const std::string& name, std::int64_t width) const {
    constexpr std::int64_t tokens = 1500;  // at least those of the tokenizer
    std::vector<float> table(static_cast<std::size_t>(tokens * width));
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = std::sin(static_cast<float>(i) * 0.37F);
    onnx::GraphWriter graph("tokens");
    const std::vector<onnx::WrittenSize> ids{"batch", "sequence"};
    graph.input("input_ids", ElementType::int64, ids);
    graph.node("Gather", {graph.floats("table", table, {tokens, width}), "input_ids"}, {}, "last_hidden_state");
    const std::vector<onnx::WrittenSize> hidden{"batch", "sequence", width};
    graph.output("last_hidden_state", ElementType::float32, hidden);
    const fs::path folder = gpux_.folder().path() / "models" / name;
    fs::create_directories(folder);
    graph.write(folder / "model.onnx", 17, 8);
    fs::copy_file(GPUX_SOURCE_DIR "/tests/text/data/wordpiece.json", folder / "tokenizer.json");
  }

  [[nodiscard]] std::string models() const { return (gpux_.folder().path() / "models").string(); }

  [[nodiscard]] Outcome embed(std::vector<std::string> arguments, const Environment& environment) const {
    arguments.insert(arguments.begin(), "embed");
    arguments.emplace_back("the model");
    Surroundings where;
    for (const auto& [name, value] : environment) where.environment.push_back(name + "=" + value);
    return gpux_.run(arguments, where);
  }

  Program gpux_;
};

TEST_F(Level, IsItsModelAndSaysSo) {
  keep(low, 384);
  keep(medium, 384);
  keep(high, 768);

  struct {
    std::vector<std::string> arguments;
    Environment environment;
    const char* level;
    std::string model;
    std::size_t dimension;
  } const cases[]{
      {{}, {{"OP_DBUS_VECTOR_LEVEL", "low"}}, "low", low, 384},
      {{}, {{"OP_DBUS_VECTOR_LEVEL", "Medium"}}, "medium", medium, 384},
      {{}, {{"OP_DBUS_VECTOR_LEVEL", "MED"}}, "medium", medium, 384},
      {{}, {{"OP_DBUS_VECTOR_LEVEL", "high"}}, "high", high, 768},
      {{}, {{"OP_DBUS_VECTOR_LEVEL", "high"}, {"GPUX_VECTOR_LEVEL", "low"}}, "low", low, 384},
      {{"--level", "medium"}, {{"OP_DBUS_VECTOR_LEVEL", "high"}, {"GPUX_VECTOR_LEVEL", "low"}}, "medium", medium, 384},
      {{"--level", "high", "--level-fallback"}, {}, "high", high, 768},
  };

  for (const auto& one : cases) {
    Environment environment = one.environment;
    environment.emplace_back("OP_DBUS_MODEL_DIR", models());
    const Outcome outcome = embed(one.arguments, environment);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json said = outcome.json();
    EXPECT_EQ(said.at("level"), one.level);
    EXPECT_EQ(said.at("model"), one.model);
    EXPECT_EQ(said.at("dimension"), one.dimension);
    const std::vector<double> vector = said.at("vector");
    ASSERT_EQ(vector.size(), one.dimension);
    EXPECT_NEAR(std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0), 1, 1e-5);
  }
  // A folder that is named beats the variables; a model beats a level that only a variable says.
  EXPECT_EQ(embed({"--level", "low", "--model-dir", models()}, {{"OP_DBUS_MODEL_DIR", "/nowhere"}}).code, 0);
  const Outcome named = embed({"--model", models() + "/" + low}, {{"OP_DBUS_VECTOR_LEVEL", "high"}});
  EXPECT_TRUE(named.json().at("level").is_null());
}

TEST_F(Level, NoneMakesNothing) {
  for (const Environment& environment : {Environment{{"OP_DBUS_VECTOR_LEVEL", "none"}}, Environment{}}) {
    std::vector<std::string> arguments;
    if (environment.empty()) arguments = {"--level", "none", "-o", "vectors.npy"};
    const Outcome outcome = embed(arguments, environment);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("no vectors are computed"));
  }
}

TEST_F(Level, NoneMakesFeaturesOfEventsWhereTheyAreAsked) {
  struct {
    std::vector<std::string> arguments;
    Environment environment;
  } const cases[]{{{"--level", "none", "--features", "heuristic"}, {}},
                  {{"--features", "heuristic"}, {}},
                  {{}, {{"OP_DBUS_VECTOR_LEVEL", "none"}, {"GPUX_FEATURES", "heuristic"}}}};

  for (const auto& one : cases) {
    const Outcome outcome = embed(one.arguments, one.environment);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.json().at("model"), "heuristic-features");
    EXPECT_EQ(outcome.json().at("level"), "none");
    EXPECT_EQ(outcome.json().at("dimension"), 64);
    EXPECT_EQ(outcome.json().at("vector").size(), 64U);
  }

  struct {
    std::vector<std::string> arguments;
    Environment environment;
    const char* message;
  } const mistakes[]{
      {{"--level", "low", "--features", "heuristic"}, {}, "--features heuristic is for --level none"},
      {{"--features", "heuristic"}, {{"GPUX_VECTOR_LEVEL", "low"}}, "--features heuristic is for --level none"},
      {{"--features", "heuristic", "--dimensions", "3"}, {}, "without --dimensions"},
      {{"--features", "heuristic", "--hybrid", "--to", "file:x"}, {}, "without --hybrid"},
      {{"--level", "none"}, {{"GPUX_FEATURES", "all"}}, "none, heuristic"},
  };

  for (const auto& one : mistakes) {
    const Outcome outcome = embed(one.arguments, one.environment);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.message));
  }
  // Beside nothing else.
  const std::string to = "file:" + (gpux_.folder().path() / "events.gpux").string();
  ASSERT_EQ(embed({"--features", "heuristic", "--to", to}, {}).code, 0);
  keep(low, 384);
  const Outcome refused = embed({"--level", "low", "--model-dir", models(), "--to", to}, {});
  EXPECT_EQ(refused.code, 6);
  EXPECT_THAT(refused.err, HasSubstr("has vectors of model 'heuristic-features' (sha256:"));
}

TEST_F(Level, IsFoundInTheStoreUnderItsModelsName) {
  keep(low, 384);
  const Outcome missing = embed({"--level", "low"}, {});
  EXPECT_EQ(missing.code, 7);
  EXPECT_THAT(missing.err, AllOf(HasSubstr(low), HasSubstr("gpux import FOLDER -t paraphrase-minilm-l3-v2")));
  EXPECT_THAT(embed({"--level", "low"}, {{"OP_DBUS_MODEL_DIR", "/nowhere"}}).err,
              HasSubstr("there is no folder '/nowhere/paraphrase-MiniLM-L3-v2', and the store has no"));
  ASSERT_EQ(gpux_.run({"import", models() + "/" + low, "-t", "paraphrase-minilm-l3-v2"}).code, 0);
  const Outcome found = embed({"--level", "low"}, {{"OP_DBUS_MODEL_DIR", "/nowhere"}});
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_EQ(found.json().at("vector"), embed({"--level", "low", "--model-dir", models()}, {}).json().at("vector"));
}

TEST_F(Level, FallsOneStepOnlyWhereItMay) {
  keep(medium, 384);
  const Environment there{{"OP_DBUS_MODEL_DIR", models()}};
  EXPECT_EQ(embed({"--level", "high"}, there).code, 7);
  const Outcome fell = embed({"--level", "high", "--level-fallback"}, there);
  ASSERT_EQ(fell.code, 0) << fell.err;
  EXPECT_EQ(fell.json().at("level"), "medium");
  EXPECT_THAT(fell.err, HasSubstr("level medium instead of high"));
  fs::rename(models() + "/" + medium, models() + "/" + low);
  EXPECT_EQ(embed({"--level", "high", "--level-fallback"}, there).code, 7);
}

TEST_F(Level, IsNeverAnotherModel) {
  keep(high, 384);
  const Outcome outcome = embed({"--level", "high", "--model-dir", models()}, {});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.err, HasSubstr("of 768 dimensions; what is kept under its name has 384"));
}

TEST_F(Level, TakesOpDbusVariables) {
  keep(low, 384);

  struct {
    Environment environment;
    int code;
    const char* words;
  } const cases[]{
      {{{"OP_DBUS_EXECUTION_PROVIDER", "cpu"}}, 0, "asked for cpu (OP_DBUS_EXECUTION_PROVIDER)"},
      {{{"OP_DBUS_EXECUTION_PROVIDER", "CPU"}, {"OP_DBUS_GPU_DEVICE", "3"}}, 0, "asked for cpu"},
      {{{"OP_DBUS_EXECUTION_PROVIDER", "gpu"}}, 0, "asked for cuda (OP_DBUS_EXECUTION_PROVIDER)"},
      {{{"OP_DBUS_EXECUTION_PROVIDER", "cuda"}, {"OP_DBUS_GPU_DEVICE", "0"}}, 0, "asked for cuda"},
      {{{"OP_DBUS_EXECUTION_PROVIDER", "trt"}}, 0, "asked for tensorrt"},
      {{{"OP_DBUS_EXECUTION_PROVIDER", "tensorrt"}}, 0, "asked for tensorrt"},
      {{{"OP_DBUS_EXECUTION_PROVIDER", "dml"}}, 0, "asked for directml"},
      {{{"OP_DBUS_EXECUTION_PROVIDER", "directml"}}, 0, "asked for directml"},
      {{{"OP_DBUS_EXECUTION_PROVIDER", "coreml"}}, 0, "asked for coreml"},
      {{{"OP_DBUS_EXECUTION_PROVIDER", "cuda"}, {"GPUX_PROVIDER", "cpu"}}, 0, "asked for cpu (GPUX_PROVIDER)"},
      {{{"OP_DBUS_EXECUTION_PROVIDER", "rocm"}},
       2,
       "OP_DBUS_EXECUTION_PROVIDER is 'rocm'; accepted: cpu, cuda (gpu), tensorrt (trt), directml (dml), coreml"},
      {{{"OP_DBUS_GPU_DEVICE", "first"}}, 2, "OP_DBUS_GPU_DEVICE is 'first'; accepted: a number from 0"},
      {{{"OP_DBUS_VECTOR_LEVEL", "best"}},
       2,
       "OP_DBUS_VECTOR_LEVEL is 'best'; accepted: none, low, medium (med), high"},
  };

  for (const auto& one : cases) {
    Environment environment = one.environment;
    environment.emplace_back("OP_DBUS_MODEL_DIR", models());
    const bool says_level = environment.front().first == "OP_DBUS_VECTOR_LEVEL";
    const Outcome outcome =
        embed(says_level ? std::vector<std::string>{} : std::vector<std::string>{"--level", "low"}, environment);
    EXPECT_EQ(outcome.code, one.code) << one.words << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.words));
  }
  EXPECT_EQ(embed({}, {}).code, 2);
  EXPECT_EQ(embed({"--level", "low", "--model", "x"}, {}).code, 2);
}

}  // namespace
}  // namespace gpux::test
