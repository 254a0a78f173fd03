#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"
#include "embedding/encoder_folder.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A case of a suite made of tests/models: float32[n] in and out, the values as JSON.
void write_case(const Program& gpux, const fs::path& folder, const std::string& input, const std::string& output) {
  const fs::path data = folder / "test_data_set_0";
  fs::create_directories(data);
  fs::copy_file(model("identity_float32.onnx"), folder / "model.onnx");
  for (const auto& [file, values] : {std::pair("input_0.pb", input), std::pair("output_0.pb", output)}) {
    const Outcome written =
        gpux.run({"run", model("identity_float32.onnx"), "-i", "x=" + values, "-o", (data / file).string()});
    ASSERT_EQ(written.code, 0) << written.err;
  }
}

TEST(Verify, ComparesMadeUpInputsWithTheCpu) {
  const Program gpux;
  const Outcome outcome =
      gpux.run({"verify", "--json", model("matmul_chain.onnx"), "--provider", "cpu", "--seed", "7"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json json = outcome.json();
  EXPECT_EQ(json["passed"], true);
  EXPECT_EQ(json["compared"], "cpu with cpu");
  EXPECT_EQ(json["same_provider"], true);
  EXPECT_THAT(outcome.err, HasSubstr("the same provider, so this says little"));
  ASSERT_EQ(json["outputs"].size(), 1U);
  const Json& output = json["outputs"][0];
  EXPECT_EQ(output["data_set"], "synthetic");
  EXPECT_EQ(output["output"], "y");
  EXPECT_EQ(output["type"], "float32");
  EXPECT_EQ(output["elements"], 16);
  EXPECT_EQ(output["max_absolute"], 0.0);
  EXPECT_EQ(output["cosine"], 1.0);
  EXPECT_EQ(output["tolerance"]["relative"], 1e-3);
  EXPECT_EQ(json["verdict"]["active"], Json::array({"cpu"}));
}

TEST(Verify, TakesSizesAndGivenInputs) {
  const Program gpux;
  const Json sized = gpux.run({"verify", "--json", model("add.onnx"), "--dim", "batch=5"}).json();
  EXPECT_EQ(sized["outputs"][0]["elements"], 15);
  const Json list =
      gpux.run({"verify", "--json", model("add.onnx"), "-i", R"([{"x": [[1, 2, 3]]}, {"x": [[1, 2, 3], [4, 5, 6]]}])"})
          .json();
  ASSERT_EQ(list["outputs"].size(), 2U);
  EXPECT_EQ(list["outputs"][1]["data_set"], "item 1");
  EXPECT_EQ(list["outputs"][1]["elements"], 6);
}

TEST(Verify, KnowsMapsAndSequences) {
  const Program gpux;
  for (const char* name : {"zipmap_string.onnx", "zipmap_int64.onnx", "sequence_output.onnx", "optional_output.onnx",
                           "optional_none.onnx", "string_concat.onnx"}) {
    for (const char* reference : {"cpu", "CPUExecutionProvider"}) {  // the second in a process of its own
      const Outcome outcome = gpux.run({"verify", "--json", model(name), "--reference", reference});
      EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.out << outcome.err;
      EXPECT_EQ(outcome.json()["compared"], "cpu with cpu");
    }
  }
  const Outcome given = gpux.run({"verify", model("map_input.onnx"), "--reference", "CPUExecutionProvider", "-i",
                                  R"({"x": {"dog": 2.5, "eel": 3}})"});
  EXPECT_EQ(given.code, 0) << given.out << given.err;
  EXPECT_EQ(
      gpux.run({"verify", model("pass_through_sequence_map_string.onnx"), "--reference", "CPUExecutionProvider"}).code,
      0);
}

TEST(Verify, UsesRecordedDataBesideTheModel) {
  const Program gpux;
  const fs::path folder = gpux.folder().path() / "case";
  write_case(gpux, folder, "[1, 2, 3]", "[1, 2, 3.5]");
  const std::string file = (folder / "model.onnx").string();

  const Outcome differs = gpux.run({"verify", "--json", file});
  EXPECT_EQ(differs.code, 12) << differs.err;
  const Json json = differs.json();
  EXPECT_EQ(json["passed"], false);
  ASSERT_EQ(json["outputs"].size(), 2U);
  EXPECT_EQ(json["outputs"][0]["against"], "cpu");
  EXPECT_EQ(json["outputs"][0]["passed"], true);
  EXPECT_EQ(json["outputs"][1]["against"], "recorded");
  EXPECT_EQ(json["outputs"][1]["data_set"], "test_data_set_0");
  EXPECT_EQ(json["outputs"][1]["passed"], false);
  EXPECT_EQ(json["outputs"][1]["reason"], "[2]: 3 where 3.5 was expected");
  EXPECT_EQ(json["outputs"][1]["max_absolute"], 0.5);
  EXPECT_EQ(json["outputs"][1]["mismatches"], 1);

  EXPECT_EQ(gpux.run({"verify", "model.onnx"}, {.folder = folder}).code, 12) << "named without its folder";
  EXPECT_EQ(gpux.run({"verify", file, "--rtol", "0.2"}).code, 0);
  EXPECT_EQ(gpux.run({"verify", file, "--rtol", "0.1"}).code, 12);
  EXPECT_EQ(gpux.run({"verify", file, "--atol", "0.5"}).code, 0);
  EXPECT_EQ(gpux.run({"verify", file, "--seed", "1"}).code, 0) << "synthetic inputs have no recorded outputs";
  const Outcome table = gpux.run({"verify", file, "--table"});
  EXPECT_THAT(table.out, HasSubstr("DIFFERS: [2]: 3 where 3.5 was expected"));
}

// Two answers of the CPU would be the same, and would say nothing of the provider in question.
TEST(Verify, FailsWhereTheNamedProviderDidNotRun) {
  const Program gpux;
  const std::string library = std::string("example=") + GPUX_EXAMPLE_PROVIDER;
  const std::string none = model("dynamic_unnamed.onnx"), some = model("local_function.onnx");

  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> environment;
    int code;
    std::string says;
  };

  for (const Case& one : std::vector<Case>{
           {{none, "--provider", "xnnpack"}, {}, 5, "nothing to compare: xnnpack did not run: "},
           {{none}, {"GPUX_PROVIDER=xnnpack"}, 5, "nothing to compare: xnnpack did not run: "},
           {{none, "--provider", "xnnpack", "--json"}, {}, 5, "xnnpack did not run: "},
           {{none, "--provider", "xnnpack,coreml,cpu"}, {}, 5, "nothing of 'xnnpack,coreml,cpu' ran; xnnpack: "},
           {{none, "--reference", "xnnpack"}, {}, 5, "--reference xnnpack: xnnpack did not run: "},
           // It computes Mul only, and here is none.
           {{none, "--provider", "example", "--provider-library", library}, {}, 5, "example did not run: "},
           {{none, "--provider", "example", "--provider-library", library, "--strict"}, {}, 5, "strict: example"},
           {{some, "--provider", "example", "--provider-library", library},
            {"GPUX_EXAMPLE_FAIL=compile"},
            5,
            "example did not run: "},
           {{some, "--provider", "example", "--provider-library", library}, {}, 0, "compared example+cpu with cpu"},
           {{some, "--provider", "xnnpack,example,cpu", "--provider-library", library}, {}, 0, "example+cpu with cpu"},
           {{none, "--provider", "auto"}, {}, 0, "this says little"},
           {{none, "--provider", "cpu"}, {}, 0, "this says little"},
       }) {
    std::vector<std::string> arguments{"verify"};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    SCOPED_TRACE(testing::PrintToString(arguments));
    const Outcome outcome = gpux.run(arguments, {.environment = one.environment});
    EXPECT_EQ(outcome.code, one.code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.says));
    EXPECT_EQ(outcome.out.empty(), one.code != 0) << outcome.out;
    if (one.code != 0) {
      EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    }
  }
}

TEST(Verify, RunsSuitesWhateverTheirCasesAre) {
  const Program gpux;
  const fs::path suite = gpux.folder().path() / "suite";
  write_case(gpux, suite / "a_good", "[1, 2]", "[1, 2]");
  write_case(gpux, suite / "b_differs", "[1, 2]", "[1, 3]");
  write_case(gpux, suite / "c_shape", "[1, 2]", "[1]");
  fs::create_directories(suite / "d_empty_model");
  (void)gpux.folder().write("suite/d_empty_model/model.onnx", "");
  fs::create_directories(suite / "e_no_data");
  fs::copy_file(model("add.onnx"), suite / "e_no_data" / "model.onnx");
  write_case(gpux, suite / "f_bad_data", "[1]", "[1]");
  (void)gpux.folder().write("suite/f_bad_data/test_data_set_0/input_0.pb", "\xff\xff\xff\xff");
  write_case(gpux, suite / "g_opset", "[1]", "[1]");
  fs::copy_file(model("opset_too_new.onnx"), suite / "g_opset" / "model.onnx", fs::copy_options::overwrite_existing);
  write_case(gpux, suite / "h_good", "[NaN, Infinity]", "[NaN, Infinity]");
  (void)gpux.folder().write("suite/README", "no case");

  const Outcome outcome = gpux.run({"verify", "--json", "--suite", suite.string()});
  EXPECT_EQ(outcome.code, 12) << outcome.err;
  const Json json = outcome.json();
  EXPECT_EQ(json["passed"], 2);
  EXPECT_EQ(json["failed"], 6);
  ASSERT_EQ(json["cases"].size(), 8U);
  const std::vector<std::pair<std::string, std::string>> expected{
      {"a_good", ""},
      {"b_differs", "output 'y': [1]: 2 where 3 was expected"},
      {"c_shape", "float32[2] where float32[1] was expected"},
      {"d_empty_model", "model.onnx"},
      {"e_no_data", "no test_data_set_0"},
      {"f_bad_data", "input_0.pb"},
      {"g_opset", "999"},
      {"h_good", ""},
  };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Json& one = json["cases"][i];
    EXPECT_EQ(one["name"], expected[i].first);
    EXPECT_EQ(one["passed"], expected[i].second.empty()) << one;
    EXPECT_THAT(one["reason"].get<std::string>(), HasSubstr(expected[i].second));
    if (one["passed"] == true) {
      EXPECT_EQ(one["active"], Json::array({"cpu"}));
    }
  }
  EXPECT_EQ(gpux.run({"verify", "--suite", suite.string(), "--case", "a_good", "--case", "h_good"}).code, 0);
  const Outcome table = gpux.run({"verify", "--suite", suite.string(), "--table"});
  EXPECT_THAT(table.out, HasSubstr("FAILED: output 'y': [1]: 2 where 3 was expected"));
  EXPECT_THAT(table.err, HasSubstr("2 of 8 cases passed"));
}

// The example provider computes Mul and nothing else.
TEST(Verify, TellsWhatAProviderDoesNotSupportFromWhatItGetsWrong) {
  const Program gpux;
  const fs::path suite = gpux.folder().path() / "suite";
  write_case(gpux, suite / "identity", "[1, 2]", "[1, 2]");
  write_case(gpux, suite / "opset", "[1, 2]", "[1, 2]");
  fs::copy_file(model("opset_too_new.onnx"), suite / "opset" / "model.onnx", fs::copy_options::overwrite_existing);
  write_case(gpux, suite / "square", "[1, 2]", "[2, 5]");
  fs::copy_file(model("local_function.onnx"), suite / "square" / "model.onnx", fs::copy_options::overwrite_existing);
  const auto verify = [&](const std::string& command) {
    return gpux.run({"verify", "--json", "--suite", suite.string(), "--provider", "example", "--provider-library",
                     std::string("example=").append(GPUX_EXAMPLE_PROVIDER)},
                    {.environment = {"GPUX_EXAMPLE_FAIL=" + command}});
  };

  struct Case {
    const char* command;
    const char* of_identity;
    const char* of_square;
    const char* reason;  // of the latter
    int code;
  };

  for (const Case& one : std::vector<Case>{
           {"", "not_supported", "passed", "", 0},
           {"claim-nothing", "not_supported", "not_supported", "none of the model's nodes", 5},
           {"run:1", "not_supported", "failed", "was set to fail at: run:1", 12},
           {"compile", "not_supported", "failed", "was set to fail at: compile", 12},
           {"capability", "failed", "failed", "was set to fail at: capability", 12},
       }) {
    SCOPED_TRACE(one.command);
    const Outcome outcome = verify(one.command);
    EXPECT_EQ(outcome.code, one.code) << outcome.err;
    const Json report = outcome.json();
    EXPECT_EQ(report["cases"][0]["outcome"], one.of_identity);
    EXPECT_EQ(report["cases"][1]["outcome"], "not_supported");  // no ONNX Runtime loads it
    EXPECT_EQ(report["cases"][2]["outcome"], one.of_square);
    EXPECT_THAT(report["cases"][2]["reason"].get<std::string>(), HasSubstr(one.reason));
    EXPECT_EQ(report["passed"].get<int>() + report["failed"].get<int>() + report["not_supported"].get<int>(), 3);
  }
  EXPECT_THAT(verify("").err, HasSubstr("1 of 3 cases passed, asked for example; 2 not supported by it"));
  write_case(gpux, suite / "square_wrong", "[1, 2]", "[2, 6]");
  fs::copy_file(model("local_function.onnx"), suite / "square_wrong" / "model.onnx",
                fs::copy_options::overwrite_existing);
  const Outcome wrong = verify("");
  EXPECT_EQ(wrong.code, 12) << wrong.out;
  EXPECT_EQ(wrong.json()["cases"][3]["outcome"], "failed");
}

// That no provider is there is not a result of any case.
TEST(Verify, RunsNoSuiteWithoutTheRequestedProvider) {
  const Program gpux;
  const fs::path suite = gpux.folder().path() / "suite";
  write_case(gpux, suite / "a_good", "[1, 2]", "[1, 2]");
  write_case(gpux, suite / "b_differs", "[1, 2]", "[1, 3]");
  fs::create_directories(suite / "c_empty_model");
  (void)gpux.folder().write("suite/c_empty_model/model.onnx", "");
  const std::string library = std::string("example=") + GPUX_EXAMPLE_PROVIDER;

  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> environment;
    int code;
    std::string says;
  };

  for (const Case& one : std::vector<Case>{
           {{"--provider", "xnnpack"}, {}, 5, "no case was run: xnnpack did not run: "},
           {{"--provider", "xnnpack", "--json"}, {}, 5, "no case was run: xnnpack did not run: "},
           {{"--provider", "xnnpack", "--strict"}, {}, 5, "no case was run: xnnpack did not run: "},
           {{"--provider", "xnnpack,coreml,cpu"}, {}, 5, "no case was run: nothing of 'xnnpack,coreml,cpu' ran; "},
           {{"--provider", "xnnpack,coreml"}, {}, 5, "nothing of 'xnnpack,coreml' can be used; "},
           {{}, {"GPUX_PROVIDER=xnnpack"}, 5, "no case was run: xnnpack did not run: "},
           {{"--provider", "example", "--provider-library", library},
            {"GPUX_EXAMPLE_FAIL=load"},
            5,
            "was set to fail at: load"},
           {{"--provider", "xnnpack,cpu", "--case", "a_good"}, {}, 5, "no case was run: xnnpack did not run: "},
           {{"--provider", "auto", "--case", "a_good"}, {}, 0, "1 of 1 cases passed"},
       }) {
    std::vector<std::string> arguments{"verify", "--suite", suite.string()};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    SCOPED_TRACE(testing::PrintToString(arguments));
    const Outcome outcome = gpux.run(arguments, {.environment = one.environment});
    EXPECT_EQ(outcome.code, one.code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.says));
    EXPECT_EQ(outcome.out.empty(), one.code != 0) << outcome.out;
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
  }
}

// A made-up token says little of a model of texts.
TEST(Verify, ReadsATextWhereTheModelDoes) {
  const Program gpux;
  const std::filesystem::path encoder = write_encoder_folder(gpux.folder(), R"({"pooling_mode": "mean"})", false);
  const Outcome outcome = gpux.run({"verify", "--json", (encoder / "onnx/model.onnx").string()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  constexpr int width = 16, tokens = 4;
  EXPECT_GT(outcome.json()["outputs"][0]["elements"], width * tokens);
  const Json one =
      gpux.run({"verify", "--json", (encoder / "onnx/model.onnx").string(), "--dim", "input_ids.0=1"}).json();
  EXPECT_EQ(one["outputs"][0]["elements"], width);
}

TEST(Verify, RefusesWhatDoesNotGoTogether) {
  const Program gpux;

  struct Case {
    std::vector<std::string> arguments;
    int code;
    std::string says;
  };

  const std::string add = model("add.onnx");
  const std::string models = model("");
  for (const Case& one : std::vector<Case>{
           {{}, 2, "needs a MODEL, or --suite"},
           {{add, "--suite", models}, 2, "use one of them"},
           {{add, "--case", "x"}, 2, "--suite"},
           {{add, "--dim", "batch"}, 2, "NAME=SIZE"},
           {{add, "--dim", "batch=-1"}, 2, "NAME=SIZE"},
           {{add, "--dim", "bach=2"}, 2, "no input has a free dimension 'bach'; free: batch, x.0"},
           {{add, "--dim", "batch=2", "-i", "x=[[1,2,3]]"}, 2, "--dim"},
           {{add, "--atol", "-1"}, 2, "--atol"},
           {{add, "--reference", "cudaa"}, 2, "unknown provider 'cudaa'"},
           {{add, "--provider", "cudaa"}, 2, "unknown provider 'cudaa'"},
           {{"--suite", models}, 6, "holds no case"},
           {{"--suite", models + "nowhere"}, 7, "nowhere"},
           {{model("pass_through_sparse.onnx")}, 6, "--input"},
       }) {
    std::vector<std::string> arguments{"verify"};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    const Outcome outcome = gpux.run(arguments);
    EXPECT_EQ(outcome.code, one.code) << one.says;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.says));
  }
}

}  // namespace
}  // namespace gpux::test
