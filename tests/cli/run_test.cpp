#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/program.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

Outcome run(const Program& gpux, std::vector<std::string> arguments, const Surroundings& where = {}) {
  arguments.insert(arguments.begin(), "run");
  return gpux.run(arguments, where);
}

/// "[[0.5, …], …]", 16 by 16.
std::string square() {
  std::string text = "[";
  for (int row = 0; row < 16; ++row) {
    text += row == 0 ? "[" : ", [";
    for (int column = 0; column < 16; ++column) text += column == 0 ? "0.5" : ", 0.5";
    text += "]";
  }
  return text + "]";
}

std::string slow_inputs() {
  return R"({"x": )" + square() + R"(, "iterations": 20000000})";
}

struct Answer {
  const char* model;
  std::vector<std::string> arguments;
  const char* json;
};

TEST(Run, PrintsTheOutputsOfInputsInEveryForm) {
  const Program gpux;
  for (const Answer& one : std::vector<Answer>{
           {"add.onnx", {"-i", "x=[[1, 2, 3]]"}, R"({"y": [[2, 4, 6]]})"},
           {"add.onnx", {"-i", R"({"x": [[1, 2, 3]]})"}, R"({"y": [[2, 4, 6]]})"},
           {"add.onnx", {"-i", "[[1, 2, 3], [4, 5, 6]]"}, R"({"y": [[2, 4, 6], [5, 7, 9]]})"},
           {"add.onnx", {"-i", R"([{"x": [[1, 2, 3]]}])"}, R"([{"y": [[2, 4, 6]]}])"},
           {"add.onnx", {"-i", "[]"}, "[]"},
           {"add.onnx", {"-i", "x=[]"}, R"({"y": []})"},
           {"add.onnx", {"-i", "x=[[0.1, 1e-45, 16777217]]"}, R"({"y": [[1.1, 2, 16777220]]})"},
           {"scalar.onnx", {"-i", "3"}, R"({"y": -3})"},
           {"scalar.onnx", {"-i", "x=3"}, R"({"y": -3})"},
           {"unknown_rank.onnx", {"-i", "x=[[[1, -2]]]"}, R"({"y": [[[1, 0]]]})"},
           {"dynamic_unnamed.onnx", {"-i", "x=[[1, -2]]"}, R"({"y": [[1, 0]]})"},
           {"branch.onnx", {"-i", "x=[4]", "-i", "double=false"}, R"({"y": [2]})"},
           {"branch.onnx", {"-i", R"({"x": [4]})", "-i", "double=true"}, R"({"y": [8]})"},
           {"local_function.onnx", {"-i", "x=[1, 2]"}, R"({"y": [2, 5]})"},
           {"external_data.onnx", {"-i", "x=[[1, 1, 1]]"}, R"({"y": [[106, 209]]})"},
           // what may be left out
           {"scale_default.onnx", {"-i", "x=[1, 2]"}, R"({"y": [2, 4]})"},
           {"scale_default.onnx", {"-i", R"({"x": [1, 2], "scale": [5]})"}, R"({"y": [5, 10]})"},
           {"scale_ir3.onnx", {"-i", "x=[1, 2]"}, R"({"y": [2, 4]})"},
           {"optional_input.onnx", {}, R"({"y": [-1]})"},
           {"optional_input.onnx", {"-i", "x=null"}, R"({"y": [-1]})"},
           {"optional_input.onnx", {"-i", "x=[3]"}, R"({"y": [3]})"},
           {"optional_none.onnx", {"-i", "x=[1]"}, R"({"y": null})"},
           {"optional_output.onnx", {"-i", "x=[1]"}, R"({"y": [1]})"},
           // sequences, maps, strings
           {"sequence_input.onnx", {"-i", "x=[[1, 2], [3]]"}, R"({"y": [1, 2, 3]})"},
           {"sequence_input.onnx", {"-i", "x=[[1, 2], []]"}, R"({"y": [1, 2]})"},
           {"sequence_output.onnx", {"-i", R"({"a": [1], "b": [2, 3]})"}, R"({"y": [[1], [2, 3]]})"},
           {"map_input.onnx", {"-i", R"({"x": {"dog": 2, "eel": 3}})"}, R"({"y": [[0, 2, 3]]})"},
           {"zipmap_int64.onnx", {"-i", "x=[[1, 2, 3]]"}, R"({"y": [{"10": 1, "20": 2, "30": 3}]})"},
           {"zipmap_string.onnx", {"-i", "x=[[1, 2, 3]]"}, R"({"y": [{"cat": 1, "dog": 2, "eel": 3}]})"},
           {"string_concat.onnx", {"-i", R"(x=["ab", "é\n", ""])"}, R"({"y": ["ab!", "é\n!", "!"]})"},
           // element types
           {"identity_int64.onnx",
            {"-i", "x=[9223372036854775807, -9223372036854775808, 2.0, 3e1]"},
            R"({"y": [9223372036854775807, -9223372036854775808, 2, 30]})"},
           {"identity_uint64.onnx", {"-i", "x=[18446744073709551615]"}, R"({"y": [18446744073709551615]})"},
           {"identity_bool.onnx", {"-i", "x=[true, 0, 1]"}, R"({"y": [true, false, true]})"},
           {"identity_float16.onnx", {"-i", "x=[0.1, 65504]"}, R"({"y": [0.099975586, 65504]})"},
           {"identity_bfloat16.onnx", {"-i", "x=[1, 3.14159]"}, R"({"y": [1, 3.140625]})"},
           {"identity_float64.onnx", {"-i", "x=[0.1, 1e308]"}, R"({"y": [0.1, 1e308]})"},
           {"identity_float8e4m3fn.onnx", {"-i", "x=[448, 1.1]"}, R"({"y": [448, 1.125]})"},
           {"identity_int4.onnx", {"-i", "x=[-8, 7, 1]"}, R"({"y": [-8, 7, 1]})"},
           {"identity_uint2.onnx", {"-i", "x=[3, 0, 1, 2, 3]"}, R"({"y": [3, 0, 1, 2, 3]})"},
           // NaN and the infinities
           {"divide.onnx", {"-i", R"({"a": [1, 0, -1, 1], "b": [0, 0, 0, 4]})"}, R"({"y": [null, null, null, 0.25]})"},
           {"divide.onnx",
            {"-i", R"({"a": [1, 0, -1, 1], "b": [0, 0, 0, 4]})", "--non-finite", "string"},
            R"({"y": ["Infinity", "NaN", "-Infinity", 0.25]})"},
           {"add.onnx",
            {"-i", R"(x=[[NaN, "Infinity", -Infinity]])", "--non-finite", "string"},
            R"({"y": [["NaN", "Infinity", "-Infinity"]]})"},
       }) {
    std::vector<std::string> arguments{model(one.model)};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    const Outcome outcome = run(gpux, arguments);
    EXPECT_EQ(outcome.code, 0) << one.model << ": " << outcome.err;
    EXPECT_EQ(outcome.json(), Json::parse(one.json)) << one.model << ": " << outcome.out;
    EXPECT_THAT(outcome.err, StartsWith("gpux: ran on cpu"));
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
  }
}

TEST(Run, IsQuietWhenAsked) {
  const Program gpux;
  const Outcome outcome = run(gpux, {model("scalar.onnx"), "-i", "1", "-q"});
  EXPECT_EQ(outcome.out, "{\"y\": -1}\n");
  EXPECT_EQ(outcome.err, "");
}

TEST(Run, ReadsFilesAndStandardInput) {
  const Program gpux;
  const TemporaryFolder& folder = gpux.folder();
  const std::string json = "@" + folder.write("one.json", R"({"x": [[1, 2, 3]]})").string();
  const std::string list = "@" + folder.write("two.json", R"([{"x": [[1, 2, 3]]}, {"x": [[4, 5, 6]]}])").string();
  const std::string lines = "@" + folder.write("two.jsonl", "{\"x\": [[1, 2, 3]]}\n{\"x\": [[4, 5, 6]]}\n").string();
  const std::string line = "@" + folder.write("one.jsonl", "{\"x\": [[1, 2, 3]]}\n").string();
  const std::string none = "@" + folder.write("none.jsonl", "\n").string();
  const std::string value = "x=@" + folder.write("value.json", "[[1, 2, 3]]").string();
  const Json one = Json::parse(R"({"y": [[2, 4, 6]]})");
  const Json two = Json::parse(R"([{"y": [[2, 4, 6]]}, {"y": [[5, 7, 9]]}])");
  const auto answer = [&](const std::string& input) {
    const Outcome outcome = run(gpux, {model("add.onnx"), "--input", input});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  };
  EXPECT_EQ(answer(json), one);
  EXPECT_EQ(answer(list), two);
  EXPECT_EQ(answer(lines), two);
  EXPECT_EQ(answer(line), Json::array({one})) << "a file of lines gives a list, however many there are";
  EXPECT_EQ(answer(none), Json::array());
  EXPECT_EQ(answer(value), one);
  for (const char* dash : {"-", "@-"}) {
    for (const auto& [text, expected] :
         {std::pair(R"({"x": [[1, 2, 3]]})", one), std::pair("{\"x\": [[1, 2, 3]]}\n{\"x\": [[4, 5, 6]]}\n", two)}) {
      EXPECT_EQ(run(gpux, {model("add.onnx"), "-i", dash}, {.standard_input = text}).json(), expected);
    }
  }
  EXPECT_EQ(run(gpux, {model("add.onnx"), "-f", json.substr(1)}).json(), one);
  EXPECT_EQ(run(gpux, {"-i", "x=[[1, 2, 3]]", model("add.onnx")}).json(), one) << "flags before MODEL";
}

TEST(Run, WritesWhatItReads) {
  const Program gpux;
  const auto file = [&](const char* name) { return (gpux.folder().path() / name).string(); };

  struct Case {
    const char* model;
    const char* values;
    std::vector<const char*> extensions;
  };

  for (const Case& one :
       std::vector<Case>{{"identity_float32.onnx", "[1.5, NaN, -2]", {".npy", ".npz", ".pb", ".json"}},
                         {"identity_bfloat16.onnx", "[1.5, -2, 3]", {".npy", ".npz", ".pb", ".json"}},
                         {"identity_float16.onnx", "[1.5, -2]", {".npy", ".npz", ".pb", ".json"}},
                         {"identity_int4.onnx", "[-8, 7, 1]", {".npy", ".npz", ".pb", ".json"}},
                         {"identity_uint64.onnx", "[18446744073709551615]", {".npy", ".npz", ".pb", ".json"}},
                         {"identity_bool.onnx", "[true, false]", {".npy", ".npz", ".pb", ".json"}},
                         {"identity_string.onnx", R"(["a", "é"])", {".npy", ".npz", ".pb", ".json"}}}) {
    const std::vector<std::string> base{model(one.model), "--non-finite", "string"};
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), {"-i", std::string("x=") + one.values});
    const Json expected = run(gpux, arguments).json();
    for (const char* extension : one.extensions) {
      const std::string output = file("out") + extension;
      std::vector<std::string> writing = arguments;
      writing.insert(writing.end(), {"-o", output});
      const Outcome written = run(gpux, writing);
      ASSERT_EQ(written.code, 0) << one.model << extension << ": " << written.err;
      EXPECT_EQ(written.out, "");
      if (std::string(extension) == ".json") {
        EXPECT_EQ(Json::parse(content_of(output)), expected);
        continue;
      }
      if (std::string(extension) == ".npz") continue;  // its array is called y, no input is
      std::vector<std::string> reading = base;
      reading.insert(reading.end(), {"-i", "x=@" + output});
      EXPECT_EQ(run(gpux, reading).json(), expected) << one.model << extension;
    }
  }
  // An .npz of outputs serves as inputs where the names agree.
  ASSERT_EQ(run(gpux, {model("sequence_output.onnx"), "-i", R"({"a": [1], "b": [2]})", "-o", file("s.pb")}).code, 0);
  EXPECT_EQ(run(gpux, {model("sequence_input.onnx"), "-i", "x=@" + file("s.pb")}).json(),
            Json::parse(R"({"y": [1, 2]})"));
  // What is declared optional is kept as an OptionalProto: its name, that it holds a tensor (or nothing), the tensor.
  ASSERT_EQ(run(gpux, {model("optional_output.onnx"), "-i", "x=[3]", "-o", file("o.pb")}).code, 0);
  EXPECT_THAT(content_of(file("o.pb")), StartsWith("\x0a\x01y\x10\x01\x1a"));
  EXPECT_EQ(run(gpux, {model("optional_input.onnx"), "-i", "x=@" + file("o.pb")}).json(), Json::parse(R"({"y": [3]})"));
  ASSERT_EQ(run(gpux, {model("optional_none.onnx"), "-i", "x=[1]", "-o", file("o.pb")}).code, 0);
  EXPECT_EQ(run(gpux, {model("optional_input.onnx"), "-i", "x=@" + file("o.pb")}).json(),
            Json::parse(R"({"y": [-1]})"));
  ASSERT_EQ(run(gpux, {model("add.onnx"), "-i", R"([{"x": [[1, 2, 3]]}])", "-o", file("l.json")}).code, 0);
  EXPECT_EQ(Json::parse(content_of(file("l.json"))), Json::parse(R"([{"y": [[2, 4, 6]]}])"));
}

TEST(Run, ReadsNumpyArchives) {
  const Program gpux;
  // {"y": …} under the name of the model's input: a package whose output is the other's input.
  const std::string archive = (gpux.folder().path() / "x.npz").string();
  ASSERT_EQ(run(gpux, {model("identity_float32.onnx"), "-i", "x=[1, 2]", "-o", archive}).code, 0);
  const Outcome outcome = run(gpux, {model("identity_float32.onnx"), "-i", "@" + archive});
  EXPECT_EQ(outcome.code, 6);
  EXPECT_THAT(outcome.err, HasSubstr("there is no input 'y'"));
  std::string bytes = content_of(archive);
  for (std::size_t at = 0; (at = bytes.find("y.npy", at)) != std::string::npos; ++at) bytes[at] = 'x';
  const std::string renamed = gpux.folder().write("renamed.npz", bytes).string();
  EXPECT_EQ(run(gpux, {model("identity_float32.onnx"), "-i", "@" + renamed}).json(), Json::parse(R"({"y": [1, 2]})"));
}

TEST(Run, KeepsTheOrderOfLists) {
  const Program gpux;
  std::string items = "[";
  for (int i = 0; i < 20; ++i) {
    const std::string row = "[" + std::to_string(i) + ", 0, 0]";
    items += std::string(i == 0 ? "" : ", ") + R"({"x": [)" + row + (i % 3 == 0 ? ", " + row : "") + "]}";
  }
  const Json json = run(gpux, {model("add.onnx"), "-i", items + "]"}).json();
  ASSERT_EQ(json.size(), 20U);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(json[i]["y"].size(), i % 3 == 0 ? 2U : 1U);
    EXPECT_EQ(json[i]["y"][0], Json::array({i + 1, 2, 3}));
  }
  // A fixed batch: one by one.
  std::string row = "[[1";
  for (int i = 1; i < 16; ++i) row += ", 1";
  const std::string item = R"({"x": )" + row + "]]}";
  const Json fixed = run(gpux, {model("matmul_chain.onnx"), "-i", "[" + item + ", " + item + "]"}).json();
  ASSERT_EQ(fixed.size(), 2U);
  EXPECT_FLOAT_EQ(fixed[1]["y"][0][0].get<float>(), 0.29174107F);
}

TEST(Run, SelectsOutputs) {
  const Program gpux;
  EXPECT_EQ(run(gpux, {model("add.onnx"), "-i", "x=[[1, 2, 3]]", "--output-name", "y"}).json(),
            Json::parse(R"({"y": [[2, 4, 6]]})"));
}

TEST(Run, AddsTheLabelsOfTheProject) {
  const Program gpux;
  (void)gpux.folder().write("project/gpux.yml",
                            "name: toy\nversion: 1.0.0\nmodel: {source: ./add.onnx}\n"
                            "outputs:\n  y: {type: float32, labels: [one, two, three], top_k: 2}\n");
  const fs::path project = gpux.folder().path() / "project";
  fs::copy_file(model("add.onnx"), project / "add.onnx");
  const Json json = run(gpux, {project.string(), "-i", "x=[[9, 1, 4]]"}).json();
  EXPECT_EQ(json["y"], Json::parse("[[10, 3, 7]]"));
  EXPECT_EQ(json["labels"], Json::parse(R"({"y": [[{"label": "one", "score": 10}, {"label": "three", "score": 7}]]})"));
}

TEST(Run, ReportsWhereItRan) {
  const Program gpux;
  const std::string report = (gpux.folder().path() / "report.json").string();
  const Outcome outcome = run(gpux, {model("add.onnx"), "-i", R"([{"x": [[1, 2, 3]]}])", "--report", report});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(content_of(report));
  EXPECT_EQ(json["verdict"]["active"], Json::array({"cpu"}));
  EXPECT_EQ(json["timings"]["items"], 1);
  EXPECT_GT(json["timings"]["load_ms"], 0);
  EXPECT_GT(json["timings"]["run_ms"], 0);
}

TEST(Run, GivesUpAtTheTimeLimit) {
  const Program gpux;
  const Outcome outcome =
      run(gpux, {model("slow.onnx"), "--timeout", "300ms", "-i", slow_inputs()}, {.limit = std::chrono::seconds(20)});
  EXPECT_EQ(outcome.code, 9) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("no answer within 0.3 s"));
}

TEST(Run, EndsWith130WhenInterrupted) {
  const Program gpux;
  const ProcessResult result =
      run_process({"timeout", "--preserve-status", "-s", "INT", "2", Program::file().string(), "run",
                   model("slow.onnx"), "-o", (gpux.folder().path() / "never.json").string(), "-i", slow_inputs()},
                  std::chrono::seconds(30), {"GPUX_HOME=" + gpux.home().string()});
  EXPECT_EQ(result.exit_code, 130) << result.standard_error;
  EXPECT_EQ(result.standard_output, "");
  EXPECT_FALSE(fs::exists(gpux.folder().path() / "never.json"));
}

TEST(Run, SaysWhenItsOutputCannotBeWritten) {
  const Program gpux;
  const ProcessResult full = run_process(
      {"sh", "-c", "exec \"$0\" \"$@\" > /dev/full", Program::file().string(), "run", model("scalar.onnx"), "-i", "1"},
      std::chrono::seconds(60), {"GPUX_HOME=" + gpux.home().string()});
  EXPECT_EQ(full.exit_code, 13);
  EXPECT_THAT(full.standard_error, HasSubstr("cannot write to standard output: No space left on device"));
  const Outcome nowhere = run(gpux, {model("scalar.onnx"), "-i", "1", "-o", "/proc/no/such.json"});
  EXPECT_EQ(nowhere.out, "");
  EXPECT_NE(nowhere.code, 0);
  EXPECT_THAT(nowhere.err, HasSubstr("/proc/no"));
}

struct BadCase {
  std::vector<std::string> arguments;
  int code;
  std::string says;
};

void expect_refused(const Program& gpux, const std::vector<BadCase>& cases) {
  for (const BadCase& one : cases) {
    const Outcome outcome = run(gpux, one.arguments);
    EXPECT_EQ(outcome.code, one.code) << one.says << ": " << outcome.err;
    EXPECT_EQ(outcome.out, "") << one.says;
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.says));
  }
}

TEST(Run, RefusesBadModels) {
  const Program gpux;
  const TemporaryFolder& folder = gpux.folder();
  const std::string whole = content_of(model("matmul_chain.onnx"));
  std::string noise(4000, '\0');
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i * 31 + (i >> 3) * 7 + 0xda);
  const auto file = [&](const char* name, std::string_view content) { return folder.write(name, content).string(); };
  (void)folder.write("folder.onnx/README", "");
  std::string huge = whole;
  huge[huge.find('\x3a') + 1] = '\xff';  // the graph's length
  expect_refused(gpux, {
                           {{file("empty.onnx", "")}, 4, "is empty, not an ONNX model"},
                           {{file("cut.onnx", whole.substr(0, 100))}, 4, "cut off or damaged"},
                           {{file("cut2.onnx", whole.substr(0, whole.size() - 1))}, 4, "cut off or damaged"},
                           {{file("noise.onnx", noise)}, 4, "is not an ONNX model"},
                           {{file("huge.onnx", huge)}, 4, "cut off or damaged"},
                           {{file("text.onnx", "hello, world\n")}, 4, "text.onnx"},
                           {{(folder.path() / "folder.onnx").string()}, 7, "has no gpux.yml and no ONNX file"},
                           {{model("nowhere.onnx")}, 7, "there is no file or folder"},
                           {{"nowhere:latest"}, 7, "no model 'nowhere:latest'"},
                           {{"/dev/null"}, 4, "/dev/null"},
                           {{model("opset_too_new.onnx"), "-i", "x=[1]"}, 4, "999"},
                           {{model("unknown_operator.onnx"), "-i", "x=[1]"}, 4, "NoSuchOperator"},
                           {{model("unknown_domain.onnx"), "-i", "x=[1]"}, 4, "com.example"},
                           {{model("external_missing.onnx"), "-i", "x=[[1, 1, 1]]"}, 4, "no_such_file.bin"},
                           {{model("external_outside.onnx"), "-i", "x=[[1, 1, 1]]"}, 4, "outside the model's folder"},
                           {{model("external_absolute.onnx"), "-i", "x=[[1, 1, 1]]"}, 4, "an absolute path"},
                       });
}

TEST(Run, RefusesBadInputs) {
  const Program gpux;
  const TemporaryFolder& folder = gpux.folder();
  const std::string add = model("add.onnx");
  const std::string deep(1000000, '[');
  const auto file = [&](const char* name, std::string_view content) {
    return "@" + folder.write(name, content).string();
  };
  expect_refused(
      gpux,
      {
          {{add}, 6, "input 'x' (float32[batch, 3]) is missing"},
          {{add, "-i", "{}"}, 6, "input 'x' (float32[batch, 3]) is missing"},
          {{add, "-i", "z=[[1, 2, 3]]"}, 6, "there is no input 'z', did you mean 'x'?; inputs: x"},
          {{add, "-i", R"({"z": [[1, 2, 3]]})"}, 6, "there is no input 'z'"},
          {{add, "-i", R"({"x": [[1, 2, 3]], "x": [[1, 2, 3]]})"}, 6, "x"},
          {{add, "-i", "x=[[1, 2, 3]]", "-i", "x=[[1, 2, 3]]"}, 6, "input 'x' is given twice"},
          {{add, "-i", "x=[1, 2, 3]"}, 6, "[0]: 1 found where a list was expected"},
          {{add, "-i", "x=[[[1, 2, 3]]]"}, 6, "[0][0]"},
          {{add, "-i", "x=[[1, 2]]"}, 6, "[0]: 2 elements, not 3"},
          {{add, "-i", "x=[[1, 2, 3], [1, 2]]"}, 6, "[1]: 2 elements, not 3"},
          {{model("dynamic_unnamed.onnx"), "-i", "x=[[1, 2], [3]]"}, 6, "[1]"},
          {{add, "-i", R"(x=[["a", 2, 3]])"}, 6, R"([0][0]: "a" is not a float32)"},
          {{add, "-i", "x=[[\"K\u00f6ln\", 2, 3]]"}, 6, "[0][0]: \"K\u00f6ln\" is not a float32"},
          {{add, "-i", "x=[[true, 2, 3]]"}, 6, "[0][0]"},
          {{add, "-i", "x=[[null, 2, 3]]"}, 6, "[0][0]"},
          {{add, "-i", "x=[[1, 2, 3]] x"}, 6, "x"},
          {{add, "-i", "x=[[1, 2, 3]"}, 6, "x"},
          {{add, "-i", "x=[[01, 2, 3]]"}, 6, "[0][0]"},
          {{add, "-i", "x=[[1, 2, 1e400]]"}, 6, "[0][2]: 1e400 does not fit float32"},
          {{add, "-i", "x=[[1, 2, 1e39]]"}, 6, "[0][2]: 1e39 does not fit float32"},
          {{model("identity_float16.onnx"), "-i", "x=[65520]"}, 6, "[0]: 65520 does not fit float16"},
          {{model("identity_uint8.onnx"), "-i", "x=[1, 300]"}, 6, "[1]: 300 does not fit uint8 (0 to 255)"},
          {{model("identity_uint8.onnx"), "-i", "x=[-1]"}, 6, "[0]: -1 does not fit uint8"},
          {{model("identity_int8.onnx"), "-i", "x=[128]"}, 6, "[0]: 128 does not fit int8"},
          {{model("identity_int4.onnx"), "-i", "x=[8]"}, 6, "[0]: 8 does not fit int4"},
          {{model("identity_int64.onnx"), "-i", "x=[1.5]"}, 6, "[0]: 1.5 is not whole"},
          {{model("identity_int64.onnx"), "-i", "x=[9223372036854775808]"}, 6, "does not fit int64"},
          {{model("identity_int64.onnx"), "-i", "x=[NaN]"}, 6, "[0]"},
          {{model("identity_bool.onnx"), "-i", "x=[2]"}, 6, "[0]"},
          {{model("identity_string.onnx"), "-i", "x=[1]"}, 6, "[0]"},
          {{model("identity_complex64.onnx"), "-i", "x=[1]"}, 6, "complex64 tensors have no JSON form"},
          {{model("gather.onnx"), "-i", "index=[7]"}, 6, "a Gather node: indices element out of data bounds, idx=7"},
          {{model("reshape.onnx"), "-i", R"({"x": [1, 2, 3], "shape": [2, 2]})"}, 6, "Reshape node 'fold': "},
          {{model("any.onnx"), "-i", "x=[]"}, 6, "ReduceMax node 'largest': ReduceMax is not defined for empty set"},
          {{model("any.onnx"), "-i", R"([{"x": [true]}, {"x": []}])"}, 6, "item 1: ReduceMax node 'largest': "},
          {{model("branch.onnx"), "-i", "[4]"}, 6, "give NAME="},
          {{add, "-i", R"([{"x": [[1, 2, 3]]}, {"x": [[1, 2, "a"]]}])"}, 6, "item 1: input 'x': [0][2]"},
          {{add, "-i", R"([{"x": [[1, 2, 3]]}, 5])"}, 6, "item 1"},
          {{add, "-i", file("deep.json", deep)}, 6, "deep.json: JSON, line 1, column"},
          {{add, "-i", file("deep2.json", R"({"x": )" + deep)}, 6, "deep2.json"},
          {{add, "-i", "x=" + file("deep3.json", deep)}, 6, "input 'x'"},
          {{add, "-i", file("bad.jsonl", "{\"x\": [[1, 2, 3]]}\n{\"x\": [[1]]}\n")}, 6, "item 1"},
          {{add, "-i", file("cut.npy", "\x93NUMPY")}, 6, "cut.npy"},
          {{add, "-i", file("no.npz", "PK")}, 6, "no.npz"},
          {{add, "-i", file("no.pb", "\xff\xff\xff")}, 6, "no.pb"},
          {{add, "-i", file("no.txt", "hello")}, 6, ".json, .jsonl, .npz, .npy, .pb and images"},
          {{add, "-i", "@" + folder.path().string() + "/nowhere.json"}, 7, "nowhere.json"},
          {{add, "-i", "@" + folder.path().string()}, 6, "is a directory"},
          {{add, "-i", folder.write("a.json", "{}").string()}, 2, "is a file: write '@"},
          {{add, "-i", "x=[[1, 2, 3]]", "--output-name", "q"}, 6, "there is no output 'q'; outputs: y"},
          {{add, "-i", "x=[[1, 2, 3]]", "-o", "x.txt"}, 2, "accepted: .json, .npz, .npy, .pb"},
          {{add, "-i", "[]", "-o", "x.npz"}, 6, "there is a list: use .json"},
          {{model("zipmap_int64.onnx"), "-i", "x=[[1, 2, 3]]", "-o", "x.npz"}, 6, "output 'y' is none: use .json"},
          {{model("zipmap_int64.onnx"), "-i", "x=[[1, 2, 3]]", "-o", "x.pb"}, 6, "output 'y' is none: use .json"},
          {{model("sequence_output.onnx"), "-i", R"({"a": [1], "b": [2]})", "-o", "x.npy"}, 6, "use .json or .pb"},
          {{add, "-i", "x=[[1, 2, 3]]", "--timeout", "soon"}, 2, "--timeout is 'soon'"},
          {{add, "-i", "x=[[1, 2, 3]]", "--non-finite", "x"}, 2, "--non-finite"},
          {{add, "-i", "x=[[1, 2, 3]]", "--provider", "cdua"}, 2, "cdua"},
          {{add, "--benchmark", "--runs", "0"}, 2, "0 runs"},
          {{add, "--benchmark", "--runs", "-1"}, 2, "--runs"},
      });
}

TEST(Run, SaysWhatItMayNotRead) {
  const Program gpux;
  const fs::path secret = gpux.folder().write("secret.onnx", content_of(model("add.onnx")));
  fs::permissions(secret, fs::perms::none);
  std::vector<std::string> command{Program::file().string(), "run", secret.string(), "-i", "x=[[1, 2, 3]]"};
  if (::geteuid() == 0) {
    fs::permissions(gpux.folder().path(), fs::perms::all);
    command.insert(command.begin(), {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});
    const ProcessResult able = run_process(
        {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", Program::file().string(), "--version"});
    if (able.exit_code != 0) GTEST_SKIP() << "root reads everything, and nobody may not run gpux here";
  }
  const ProcessResult result =
      run_process(command, std::chrono::seconds(60), {"GPUX_HOME=" + (gpux.folder().path() / "nobody").string()});
  EXPECT_EQ(result.exit_code, 13) << result.standard_error;
  EXPECT_TRUE(is_one_line(result.standard_error)) << result.standard_error;
  EXPECT_THAT(result.standard_error, HasSubstr("Permission denied"));
}

}  // namespace
}  // namespace gpux::test
