#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace gpux::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> few = {"--runs", "20", "--warmup", "3"};

Outcome bench(const Program& gpux, std::vector<std::string> arguments, const Surroundings& where = {}) {
  arguments.insert(arguments.begin(), "bench");
  arguments.insert(arguments.end(), few.begin(), few.end());
  if (std::ranges::find(arguments, "--table") == arguments.end()) arguments.emplace_back("--json");
  return gpux.run(arguments, where);
}

void expect_figures(const Json& json) {
  for (const char* key : {"mean_time_ms", "std_time_ms", "min_time_ms", "max_time_ms", "median_time_ms", "p90_time_ms",
                          "p95_time_ms", "p99_time_ms", "throughput_fps", "first_run_ms", "load_ms"}) {
    ASSERT_TRUE(json.contains(key)) << key << " in " << json;
    EXPECT_TRUE(json[key].is_number()) << key;
    EXPECT_GE(json[key].get<double>(), 0) << key;
  }
  EXPECT_LE(json["min_time_ms"], json["median_time_ms"]);
  EXPECT_LE(json["median_time_ms"], json["p90_time_ms"]);
  EXPECT_LE(json["p90_time_ms"], json["p95_time_ms"]);
  EXPECT_LE(json["p95_time_ms"], json["p99_time_ms"]);
  EXPECT_LE(json["p99_time_ms"], json["max_time_ms"]);
  EXPECT_NEAR(json["throughput_fps"].get<double>() * json["mean_time_ms"].get<double>(), 1000, 1);
  EXPECT_GT(json["peak_memory_bytes"], 1000000);
}

TEST(Bench, MeasuresOneProvider) {
  const Program gpux;
  const Outcome outcome = bench(gpux, {model("matmul_chain.onnx")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json json = outcome.json();
  expect_figures(json);
  EXPECT_EQ(json["runs"], 20);
  EXPECT_EQ(json["warmup_runs"], 3);
  EXPECT_EQ(json["verdict"]["active"], Json::array({"cpu"}));
  EXPECT_FALSE(json.contains("items_per_second")) << "the batch is fixed, so nobody says which dimension it is";
}

TEST(Bench, CountsTheItemsOfABatch) {
  const Program gpux;
  const Json json = bench(gpux, {model("add.onnx"), "--dim", "batch=8"}).json();
  EXPECT_EQ(json["batch"], 8);
  EXPECT_DOUBLE_EQ(json["items_per_second"].get<double>(), 8 * json["throughput_fps"].get<double>());
  const Json given = bench(gpux, {model("add.onnx"), "-i", "x=[[1,2,3],[4,5,6]]"}).json();
  EXPECT_EQ(given["batch"], 2);
}

TEST(Bench, MeasuresForATime) {
  const Program gpux;
  // Whatever a run takes, it takes longer than this.
  const Json json = gpux.run({"bench", "--json", model("add.onnx"), "--seconds", "0.000000001"}).json();
  expect_figures(json);
  EXPECT_EQ(json["runs"], 1);
}

TEST(Bench, PutsProvidersSideBySide) {
  const Program gpux;
  const Outcome outcome = bench(gpux, {model("add.onnx"), "-p", "cpu", "-p", "no-such", "-p", "auto"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json json = outcome.json();
  ASSERT_EQ(json["results"].size(), 3U);
  EXPECT_EQ(json["results"][0]["provider"], "cpu");
  expect_figures(json["results"][0]);
  EXPECT_EQ(json["results"][1]["provider"], "no-such");
  EXPECT_EQ(json["results"][1]["error"]["exit_code"], 2);
  EXPECT_EQ(json["results"][1]["error"]["code"], "usage");
  EXPECT_THAT(json["results"][1]["error"]["message"].get<std::string>(), HasSubstr("unknown provider 'no-such'"));
  EXPECT_THAT(json["results"][1]["error"]["message"].get<std::string>(), Not(HasSubstr("gpux:")));
  EXPECT_EQ(json["results"][2]["provider"], "auto");
  expect_figures(json["results"][2]);
  EXPECT_EQ(json["results"][2]["verdict"]["active"], Json::array({"cpu"})) << "what ran it, not what was asked for";
  EXPECT_THAT(outcome.err, HasSubstr("no-such failed: "));

  const Outcome table = bench(gpux, {model("add.onnx"), "-p", "cpu", "-p", "no-such", "--table"});
  EXPECT_THAT(table.out, HasSubstr("no-such failed: "));
  EXPECT_THAT(table.out, HasSubstr("peak memory"));
}

bool has_figures(const Json& result) {
  return result.contains("mean_time_ms") || result.contains("throughput_fps") || result.contains("load_ms");
}

TEST(Bench, GivesNoFiguresOfWhatRanInstead) {
  const Program gpux;
  const Outcome both = bench(gpux, {model("add.onnx"), "-p", "cpu", "-p", "xnnpack"});
  EXPECT_EQ(both.code, 0) << both.err;
  const Json results = both.json()["results"];
  expect_figures(results[0]);
  EXPECT_FALSE(has_figures(results[1])) << results[1];
  EXPECT_EQ(results[1]["error"]["code"], "provider_unavailable");
  EXPECT_EQ(results[1]["error"]["exit_code"], 5);
  EXPECT_THAT(results[1]["error"]["reason"].get<std::string>(), testing::StartsWith("xnnpack did not run: "));
  EXPECT_EQ(results[1]["verdict"]["active"], Json::array({"cpu"}));
  EXPECT_THAT(both.err, HasSubstr("xnnpack did not run: "));

  const Outcome table = bench(gpux, {model("add.onnx"), "-p", "xnnpack", "--table"});
  EXPECT_EQ(table.code, 5);
  EXPECT_THAT(table.out,
              testing::AllOf(HasSubstr("ran on"), HasSubstr("xnnpack did not run: "), Not(HasSubstr("mean"))));

  const std::string library = std::string("example=") + GPUX_EXAMPLE_PROVIDER;

  struct Case {
    std::vector<std::string> arguments;
    int code;
    std::vector<bool> figures;
  };

  for (const Case& one : std::vector<Case>{
           {{"-p", "xnnpack"}, 5, {false}},
           {{"-p", "xnnpack", "-p", "coreml"}, 5, {false, false}},
           {{"-p", "auto", "-p", "xnnpack"}, 5, {true, false}},
           {{"-p", "xnnpack", "-p", "auto", "-p", "cpu"}, 0, {false, true, true}},
           {{"-p", "xnnpack,coreml,cpu"}, 5, {false}},
           {{"-p", "auto"}, 0, {true}},
           // It computes Mul only, and here is none.
           {{"-p", "example", "--provider-library", library}, 5, {false}},
       }) {
    std::vector<std::string> arguments{model("add.onnx")};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    SCOPED_TRACE(testing::PrintToString(arguments));
    const Outcome outcome = bench(gpux, arguments);
    EXPECT_EQ(outcome.code, one.code) << outcome.err;
    const Json json = outcome.json();
    for (std::size_t i = 0; i < one.figures.size(); ++i) {
      EXPECT_EQ(has_figures(json.contains("results") ? json["results"][i] : json), one.figures[i]) << json;
    }
  }
  const Json held = bench(gpux, {model("local_function.onnx"), "-p", "example", "--provider-library", library}).json();
  expect_figures(held);
}

TEST(Bench, EndsWithTheFailureWhereNothingIsLeft) {
  const Program gpux;
  EXPECT_EQ(bench(gpux, {model("add.onnx"), "-p", "one", "-p", "two"}).code, 2);
  EXPECT_EQ(bench(gpux, {model("nowhere.onnx"), "-p", "cpu", "-p", "xnnpack"}).code, 7);
  EXPECT_EQ(bench(gpux, {model("add.onnx"), "-p", "cpu", "-p", "xnnpack", "--strict"}).code, 5);
}

TEST(Bench, GivesEachProviderTheSameInputs) {
  const Program gpux;
  const Surroundings where{.standard_input = R"({"x": [[1, 2, 3], [4, 5, 6], [7, 8, 9]]})"};
  const Outcome outcome = bench(gpux, {model("add.onnx"), "-p", "cpu", "-p", "auto", "-i", "-"}, where);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json json = outcome.json();
  ASSERT_EQ(json["results"].size(), 2U);
  for (const Json& result : json["results"]) EXPECT_EQ(result["batch"], 3);
}

TEST(Bench, WritesAFileInsteadOfStandardOutput) {
  const Program gpux;
  for (const std::vector<std::string>& providers :
       {std::vector<std::string>{"-p", "cpu"}, std::vector<std::string>{"-p", "cpu", "-p", "auto"}}) {
    const std::filesystem::path file = gpux.folder().path() / "bench.json";
    std::filesystem::remove(file);
    std::vector<std::string> arguments{model("add.onnx"), "-o", file.string()};
    arguments.insert(arguments.end(), providers.begin(), providers.end());
    const Outcome outcome = bench(gpux, arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    const Json json = Json::parse(content_of(file));
    expect_figures(json.contains("results") ? json["results"][1] : json);
  }
}

TEST(Bench, RefusesWhatMeasuresNothing) {
  const Program gpux;

  struct Case {
    std::vector<std::string> arguments;
    int code;
  };

  for (const Case& one : std::vector<Case>{{{model("add.onnx"), "--runs", "0"}, 2},
                                           {{model("add.onnx"), "--runs", "-5"}, 2},
                                           {{model("add.onnx"), "--seconds", "-1"}, 2},
                                           {{model("add.onnx"), "--seconds", "soon"}, 2},
                                           {{model("add.onnx"), "-i", "[]"}, 2},
                                           {{model("add.onnx"), "-i", R"([{"x":[[1,2,3]]},{"x":[[1,2,3]]}])"}, 2},
                                           {{model("add.onnx"), "-i", "x=[[1,2,3]]", "--dim", "batch=2"}, 2},
                                           {{model("add.onnx"), "-i", "x=[[1,2]]"}, 6},
                                           {{model("pass_through_sparse.onnx")}, 6},
                                           {{model("nowhere.onnx")}, 7}}) {
    std::vector<std::string> arguments{"bench"};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    const Outcome outcome = gpux.run(arguments);
    EXPECT_EQ(outcome.code, one.code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
  }
}

}  // namespace
}  // namespace gpux::test
