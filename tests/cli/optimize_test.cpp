// build --optimize: what is kept of a graph for the next start, and what is not.
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace gpux::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class Optimize : public testing::Test {
 protected:
  [[nodiscard]] Outcome run(const Words& arguments) const {
    return gpux_.run(arguments, {.folder = gpux_.folder().path()});
  }

  Program gpux_;
};

TEST_F(Optimize, KeepsTheGraphOfTheCpu) {
  ASSERT_EQ(run({"build", model("add.onnx"), "-t", "add", "--optimize"}).code, 0);
  const Outcome outcome = run({"run", "add", "--input", R"({"x": [[1, 2, 3]]})", "-v"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("the graph optimized when the package was built is used"));
}

TEST_F(Optimize, KeepsWhatTheEncoderProviderCompiled) {
  ASSERT_EQ(run({"import", GPUX_SOURCE_DIR "/tests/embedding/references/bert-cls", "-o", "made"}).code, 0);
  const Words flags{"--provider", "encoder", "--precision", "int8"};
  Words build{"build", "./made", "-t", "kept", "--optimize", "--json"};
  build.insert(build.end(), flags.begin(), flags.end());
  const Outcome built = run(build);
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_THAT(built.out, AllOf(HasSubstr("optimized/model.onnx"), HasSubstr(".encoder")));
  EXPECT_EQ(run(build).json().at("id"), built.json().at("id")) << "the same in, the same out";

  const Words texts{"the model runs", "a provider"};
  const auto embed = [&](Words words) {
    words.insert(words.begin(), {"embed", "-v"});
    words.insert(words.end(), texts.begin(), texts.end());
    return run(words);
  };
  const Outcome kept = embed({"--model", "kept"});
  Words anew{"--model", "./made"};
  anew.insert(anew.end(), flags.begin(), flags.end());
  const Outcome compiled = embed(anew);
  EXPECT_THAT(kept.err, AllOf(HasSubstr("ran on encoder (1 of 1 nodes) in int8"), HasSubstr("was built is used")));
  EXPECT_THAT(compiled.err, Not(HasSubstr("was built")));
  const auto vectors = [](const Outcome& outcome) {
    std::vector<Json> all;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line).at("vector"));
    return all;
  };
  EXPECT_EQ(vectors(kept), vectors(compiled));
  EXPECT_EQ(vectors(kept).size(), 2U);
  // Not where another precision is asked for.
  EXPECT_THAT(embed({"--model", "kept", "--precision", "bf16"}).err,
              AllOf(HasSubstr("ran on encoder"), HasSubstr("in bf16"), Not(HasSubstr("was built"))));
}

TEST_F(Optimize, RefusesWhereAProviderKeepsNothing) {
  const std::string library = std::string("example=").append(GPUX_EXAMPLE_PROVIDER);
  const Outcome nothing = run({"build", model("multiply.onnx"), "-t", "m", "--optimize", "--provider", "example",
                               "--provider-library", library});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err,
              AllOf(HasSubstr("no optimized graph can be kept with example: "), HasSubstr("NULL EPContext node")));
  const Outcome unclaimed = run({"build", model("add.onnx"), "-t", "m", "--optimize", "--provider", "encoder"});
  EXPECT_EQ(unclaimed.code, 2);
  EXPECT_THAT(unclaimed.err, HasSubstr("encoder took nothing of the model; ask for cpu alone"));
  EXPECT_EQ(run({"run", "m"}).code, 7) << "nothing was stored";
}

}  // namespace
}  // namespace gpux::test
