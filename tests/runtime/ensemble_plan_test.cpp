#include "runtime/session/ensemble_plan.h"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Links = std::vector<std::pair<std::string, std::string>>;

SignatureEntry value(const std::string& name, ElementType type = ElementType::float32,
                     std::vector<Dimension> sizes = {{.size = {}, .name = "n"}, {.size = 3, .name = ""}}) {
  SignatureEntry entry;
  entry.name = name;
  entry.type.kind = ValueKind::tensor;
  entry.type.element = type;
  entry.type.dimensions = std::move(sizes);
  return entry;
}

EnsembleStep step(const std::string& name, std::vector<SignatureEntry> inputs, std::vector<SignatureEntry> outputs,
                  Links links = {}) {
  EnsembleStep made;
  made.name = name;
  made.signature.inputs = std::move(inputs);
  made.signature.outputs = std::move(outputs);
  made.inputs = std::move(links);
  return made;
}

std::vector<std::string> names_of(const std::vector<SignatureEntry>& entries) {
  std::vector<std::string> names;
  for (const SignatureEntry& entry : entries) names.push_back(entry.name);
  return names;
}

TEST(EnsemblePlan, LinksSteps) {
  const std::vector<EnsembleStep> steps{
      step("first", {value("x")}, {value("y"), value("unused")}),
      step("left", {value("x")}, {value("y")}, {{"x", "first.y"}}),
      step("right", {value("x"), value("scale")}, {value("z")}, {{"x", "first.y"}, {"scale", "factor"}}),
      // By name: y of the latest step that has it, z, and an input of the ensemble that the first step takes, too.
      step("join", {value("y"), value("z"), value("x")}, {value("sum"), value("rest")}),
  };
  const EnsemblePlan plan = plan_ensemble(steps, {});
  EXPECT_THAT(names_of(plan.signature.inputs), ElementsAre("x", "factor"));
  EXPECT_THAT(names_of(plan.signature.outputs), ElementsAre("sum", "rest"));
  EXPECT_EQ(plan.inputs[1][0].step, 0);
  EXPECT_EQ(plan.inputs[2][1].step, std::nullopt);
  EXPECT_EQ(plan.inputs[2][1].index, 1);
  EXPECT_EQ(plan.inputs[3][0].step, 1);
  EXPECT_EQ(plan.inputs[3][1].step, 2);
  EXPECT_EQ(plan.inputs[3][2].index, 0);

  const EnsemblePlan some = plan_ensemble(std::span(steps).first(3), {{"a", "right.z"}, {"b", "left.y"}});
  EXPECT_THAT(names_of(some.signature.outputs), ElementsAre("a", "b"));
  const std::vector<std::size_t> second{1};
  const auto needed = some.needed(second);
  EXPECT_THAT(needed[0], ElementsAre(0));
  EXPECT_THAT(needed[1], ElementsAre(0));
  EXPECT_THAT(needed[2], IsEmpty()) << "what is not asked for is not computed";
}

TEST(EnsemblePlan, SaysWhatDoesNotFit) {
  const auto first = step("first", {value("x")}, {value("y")});

  struct Case {
    std::vector<EnsembleStep> steps;
    Links outputs;
    const char* problem;
  };

  const std::vector<Case> cases{
      {{first, step("b", {value("x")}, {value("z")}, {{"x", "frist.y"}, {"q", "first.y"}})},
       {},
       "step 'b': its model has no input 'q'; it has: x"},
      {{first, step("b", {value("x")}, {value("z")}, {{"x", "first.z"}})},
       {},
       "step 'first' has no output 'z'; it has: y"},
      {{step("b", {value("x")}, {value("z")}, {{"x", "first.y"}}), first}, {}, "which does not run before"},
      {{step("b", {value("x")}, {value("z")}, {{"x", "b.z"}})}, {}, "which does not run before"},
      {{first, step("first", {value("y")}, {value("z")})}, {}, "two steps are called 'first'"},
      {{step("a.b", {value("x")}, {value("y")})}, {}, "a name without a dot"},
      {{first, step("b", {value("y", ElementType::int64)}, {value("z")})}, {}, "takes int64"},
      {{first, step("b", {value("y", ElementType::float32, {{.size = 4, .name = ""}})}, {value("z")})},
       {},
       "step 'first' gives float32[n, 3]"},
      {{first, step("b", {value("x", ElementType::int64), value("y")}, {value("z")})}, {}, "an earlier step takes 'x'"},
      {{first, step("b", {value("q")}, {value("z")})}, {}, "nothing uses step 'first'"},
      {{first}, {{"out", "y"}}, "output 'out': 'y' is no STEP.OUTPUT"},
      {{first}, {{"out", "other.y"}}, "'other.y' is no STEP.OUTPUT"},
      {{first}, {{"out", "first.q"}}, "step 'first' has no output 'q'"},
      {{first}, {{"out", "first.y"}, {"out", "first.y"}}, "two outputs are called 'out'"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    try {
      (void)plan_ensemble(cases[i].steps, cases[i].outputs);
      ADD_FAILURE() << i;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      EXPECT_THAT(error.message(), HasSubstr(cases[i].problem)) << i;
    }
  }
}

}  // namespace
}  // namespace gpux::runtime
