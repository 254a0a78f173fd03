#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/counted_work.h"
#include "cli/program.h"

namespace gpux::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// As much of ONNX's protobuf as these tests need.
std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

std::string key(int number, int wire_type) {
  return varint(static_cast<std::uint64_t>(number) << 3 | static_cast<std::uint64_t>(wire_type));
}

std::string field(int number, std::string_view bytes) {
  return key(number, 2) + varint(bytes.size()) + std::string(bytes);
}

std::string integer(int number, std::uint64_t value) {
  return key(number, 0) + varint(value);
}

std::string node(const std::string& operator_type, const std::vector<std::string>& inputs, const std::string& output) {
  std::string text;
  for (const std::string& input : inputs) text += field(1, input);
  return field(1, text + field(2, output) + field(4, operator_type));
}

const std::string opset_17 = integer(1, 8) + field(8, field(1, "") + integer(2, 17));

std::string value_info(const std::string& name) {
  return field(1, name) + field(2, field(1, integer(1, 1) + field(2, field(1, integer(1, 1)))));
}

TEST(Inspect, ReadsWhatStandsInAFile) {
  const Program gpux;
  const Outcome outcome = gpux.run({"inspect", "--json", model("add.onnx")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json info = outcome.json();
  EXPECT_EQ(info["name"], "add");
  EXPECT_EQ(info["format"], "onnx");
  EXPECT_EQ(info["inputs"][0]["name"], "x");
  EXPECT_EQ(info["inputs"][0]["type"], "float32");
  EXPECT_EQ(info["inputs"][0]["shape"], (Json{"batch", 3}));
  EXPECT_EQ(info["outputs"][0]["name"], "y");
  EXPECT_EQ(info["opsets"]["ai.onnx"], 21);
  EXPECT_EQ(info["producer"]["name"], "gpux-tests");
  EXPECT_EQ(info["metadata"]["author"], "gpux");
  EXPECT_EQ(info["operators"], (Json{{"Add", 1}}));
  EXPECT_EQ(info["parameter_count"], 3);
  EXPECT_EQ(info["problems"], Json::array());
  EXPECT_FALSE(info.contains("placement"));
  EXPECT_EQ(outcome.err, "");
}

TEST(Inspect, TakesGpuxsOwnFlagsToo) {
  const Program gpux;
  const Outcome by_file = gpux.run({"inspect", "-m", model("add.onnx"), "--json-output"});
  EXPECT_EQ(by_file.code, 0) << by_file.err;
  EXPECT_EQ(by_file.json(), gpux.run({"inspect", model("add.onnx"), "--json"}).json());
}

TEST(Inspect, OpensNoOnnxRuntimeWithoutAProvider) {
  const Program gpux;
  const Surroundings without{.environment = {"GPUX_ONNXRUNTIME=/nonexistent"}};
  EXPECT_EQ(gpux.run({"inspect", model("add.onnx")}, without).code, 0);
  const Outcome loaded = gpux.run({"inspect", model("add.onnx"), "--provider", "cpu"}, without);
  EXPECT_EQ(loaded.code, 5);
  EXPECT_TRUE(is_one_line(loaded.err)) << loaded.err;
}

TEST(Inspect, ShowsWhichProviderTakesWhichNode) {
  const Program gpux;
  const Outcome outcome = gpux.run({"inspect", "--json", model("split.onnx"), "--provider", "cpu"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json info = outcome.json();
  ASSERT_EQ(info["placement"].size(), 1U);
  EXPECT_EQ(info["placement"][0]["provider"], "cpu");
  EXPECT_EQ(info["placement"][0]["node_count"], 8);
  EXPECT_EQ(info["placement"][0]["share"], 1.0);
  EXPECT_EQ(info["placement"][0]["operators"]["MatMul"], 2);
  EXPECT_EQ(info["placement"][0]["nodes"].size(), 8U);
  EXPECT_EQ(info["verdict"]["active"], Json{"cpu"});
  EXPECT_EQ(info["verdict"]["requested_from"], "--provider");
  const Outcome table = gpux.run({"inspect", model("split.onnx"), "--provider", "cpu", "--table"});
  EXPECT_THAT(table.out, HasSubstr("cpu       Det       det"));
}

TEST(Inspect, ShowsTheNodesOfAPluginBesideThoseOfTheProcessor) {
  const Program gpux;
  const std::string graph = node("Mul", {"x", "x"}, "square") + node("Tanh", {"square"}, "y") + field(2, "split") +
                            field(11, value_info("x")) + field(12, value_info("y"));
  const auto file = gpux.folder().write("split.onnx", opset_17 + field(7, graph));
  const Outcome outcome = gpux.run({"inspect", "--json", file.string(), "--provider", "example,cpu",
                                    "--provider-library", std::string("example=").append(GPUX_EXAMPLE_PROVIDER)});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json placement = outcome.json()["placement"];
  ASSERT_EQ(placement.size(), 2U) << placement;
  for (const Json& share : placement) {
    EXPECT_EQ(share["operators"], share["provider"] == "example" ? (Json{{"Mul", 1}}) : (Json{{"Tanh", 1}})) << share;
    EXPECT_EQ(share["share"], 0.5);
  }
}

class InspectProject : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy_file(model("add.onnx"), gpux_.folder().path() / "add.onnx");
    write("3");
  }

  void write(const std::string& columns) const {
    gpux_.folder().write("gpux.yml",
                         "name: adder\nversion: 2.1.0\nmodel: {source: ./add.onnx}\n"
                         "inputs: {x: {type: float32, shape: [batch, " +
                             columns +
                             "]}}\n"
                             "outputs: [{name: y, type: float32, labels: [a, b, c]}]\n"
                             "runtime: {gpu: {backend: cpu, memory: 2GB}, timeout: 1.5, batch_size: 8}\n");
  }

  Program gpux_;
};

TEST_F(InspectProject, ShowsConfigurationAndModel) {
  const Outcome outcome = gpux_.run({"inspect", "--json", gpux_.folder().path().string()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = outcome.json();
  EXPECT_EQ(json["config"]["name"], "adder");
  EXPECT_EQ(json["config"]["version"], "2.1.0");
  EXPECT_EQ(json["config"]["model"]["format"], "onnx");
  EXPECT_EQ(json["config"]["runtime"]["gpu"]["memory"], 2000000000);
  EXPECT_EQ(json["config"]["runtime"]["timeout"], 1.5);
  EXPECT_EQ(json["config"]["runtime"]["batch_size"], 8);
  EXPECT_EQ(json["config"]["provider"]["request"], "cpu");
  EXPECT_EQ(json["config"]["outputs"][0]["labels"], (Json{"a", "b", "c"}));
  EXPECT_EQ(json["model_info"]["name"], "adder");
  EXPECT_EQ(json["model_info"]["version"], "2.1.0");
  EXPECT_EQ(json["package"], nullptr);
  const Outcome table = gpux_.run({"inspect", ".", "--table"}, {.folder = gpux_.folder().path()});
  EXPECT_THAT(table.out, HasSubstr("2.0 GB"));
  EXPECT_THAT(table.out, HasSubstr("a, b, c"));
}

TEST_F(InspectProject, SaysWhereConfigurationAndModelDiffer) {
  write("4");
  const Outcome outcome = gpux_.run({"inspect", "--json", gpux_.folder().path().string()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(outcome.json()["problems"].size(), 1U);
  EXPECT_THAT(outcome.json()["problems"][0].get<std::string>(), HasSubstr("gpux.yml:4:"));
  EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
}

TEST_F(InspectProject, ShowsAPackageByItsName) {
  const Outcome built = gpux_.run({"build", gpux_.folder().path().string(), "--provider", "cpu"});
  ASSERT_EQ(built.code, 0) << built.err;
  const Outcome outcome = gpux_.run({"inspect", "--json", "adder:2.1.0"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = outcome.json();
  EXPECT_EQ(json["config"]["name"], "adder");
  EXPECT_EQ(json["model_info"]["name"], "adder");
  EXPECT_EQ(json["package"]["reference"], "adder:2.1.0");
  EXPECT_EQ(json["package"]["model_file"], "add.onnx");
  EXPECT_EQ(json["package"]["provider"], "cpu");
  EXPECT_THAT(json["package"]["id"].get<std::string>(), testing::MatchesRegex("sha256:[0-9a-f]+"));
  EXPECT_THAT(gpux_.run({"inspect", "adder", "--table"}).out, HasSubstr("Package\n"));
}

// A model is mapped and its weights are not touched: sparse files show it without a disk that holds them.
class InspectHuge : public testing::TestWithParam<bool> {};

// Identity(x) and an initializer of `bytes`, which is all but its data: those are the file's last bytes.
std::string model_before_raw_data(std::uint64_t bytes) {
  const std::string tensor = integer(1, bytes / 4) + integer(2, 1) + field(8, "weights");
  const std::string raw_key = key(9, 2) + varint(bytes);
  const std::uint64_t tensor_size = tensor.size() + raw_key.size() + bytes;
  const std::string graph =
      node("Identity", {"x"}, "y") + field(2, "huge") + field(11, value_info("x")) + field(12, value_info("y"));
  const std::string initializer_key = key(5, 2) + varint(tensor_size);
  const std::uint64_t graph_size = graph.size() + initializer_key.size() + tensor_size;
  return opset_17 + key(7, 2) + varint(graph_size) + graph + initializer_key + tensor + raw_key;
}

std::string model_with_external_data(std::uint64_t bytes) {
  const auto entry = [](const std::string& name, const std::string& value) {
    return field(13, field(1, name) + field(2, value));
  };
  const std::string tensor = integer(1, bytes / 4) + integer(2, 1) + field(8, "weights") +
                             entry("location", "huge.bin") + entry("length", std::to_string(bytes)) + integer(14, 1);
  const std::string graph = node("Identity", {"x"}, "y") + field(2, "huge") + field(5, tensor) +
                            field(11, value_info("x")) + field(12, value_info("y"));
  return opset_17 + field(7, graph);
}

TEST_P(InspectHuge, IsNotReadAsAWhole) {
  constexpr std::uint64_t bytes = std::uint64_t{6} << 30;
  const Program gpux;
  const bool external = GetParam();
  const std::string text = external ? model_with_external_data(bytes) : model_before_raw_data(bytes);
  const auto file = gpux.folder().write("huge.onnx", text);
  if (external) gpux.folder().write("huge.bin", "");
  std::error_code error;
  std::filesystem::resize_file(external ? gpux.folder().path() / "huge.bin" : file,
                               external ? bytes : text.size() + bytes, error);
  if (error) GTEST_SKIP() << "no sparse file of 6 GB here: " << error.message();

  const CountedWork before = work_of(RUSAGE_CHILDREN);
  const Outcome outcome = gpux.run({"inspect", file.string(), "--json"});
  const CountedWork done = work_of(RUSAGE_CHILDREN) - before;
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json info = outcome.json();
  EXPECT_EQ(info["parameter_bytes"], bytes);
  EXPECT_EQ(info["problems"], Json::array());
  EXPECT_EQ(info["external_files"].size(), external ? 1U : 0U);
  EXPECT_LT(done.read_bytes, bytes / 64);
  // The kernel maps 16 pages of a file at a time.
  EXPECT_LT(done.touched_pages, bytes / 4096 / 16 / 2);
}

INSTANTIATE_TEST_SUITE_P(Weights, InspectHuge, testing::Values(false, true),
                         [](const auto& one) { return one.param ? "beside_the_model" : "in_the_model"; });

TEST(Inspect, ShowsTheMachineWithoutAModel) {
  const Program gpux;
  const Outcome outcome = gpux.run({"inspect", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = outcome.json();
  EXPECT_THAT(json["available_providers"].get<std::vector<std::string>>(), testing::Contains("CPUExecutionProvider"));
  EXPECT_EQ(json["provider_details"]["CPUExecutionProvider"]["available"], true);
  EXPECT_EQ(json["provider_details"]["CUDAExecutionProvider"]["id"], "cuda");
  EXPECT_EQ(json["priority"].back()["provider"], "cpu");
  EXPECT_GE(json["machine"]["processors"].get<int>(), 1);
  EXPECT_GT(json["machine"]["memory_bytes"].get<std::uint64_t>(), 1U << 20);
  EXPECT_THAT(json["machine"]["onnxruntime"]["path"].get<std::string>(), HasSubstr("libonnxruntime"));
  const Outcome table = gpux.run({"inspect", "--table"});
  EXPECT_THAT(table.out, HasSubstr("Available execution providers"));
  EXPECT_THAT(table.out, HasSubstr("Provider priority of 'auto'"));
}

TEST(Inspect, KeepsAHostileModelFromTheTerminal) {
  const Program gpux;
  const std::string evil = "evil\x1b[2J\xc2\x9b\nname";
  const std::string graph =
      node("Identity", {"x"}, "y") + field(2, evil) + field(11, value_info("x")) + field(12, value_info("y"));
  const auto file = gpux.folder().write("evil.onnx", opset_17 + field(7, graph));
  const Outcome table = gpux.run({"inspect", file.string(), "--table"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr(R"(evil\x1b[2J\u009b name)"));
  EXPECT_THAT(table.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(table.out, Not(HasSubstr("\xc2\x9b")));
  EXPECT_FALSE(gpux.run({"inspect", "--json", file.string()}).json().is_null());
}

struct Refusal {
  std::vector<std::string> arguments;
  int code;
  std::string says;
};

TEST(Inspect, RefusesInOneLineWithTheDocumentedCode) {
  const Program gpux;
  const auto text = gpux.folder().write("page.onnx", "<!DOCTYPE html><html>");
  const std::vector<Refusal> refusals = {
      {{"inspect", "./nothing.onnx"}, 7, "nothing.onnx"},
      {{"inspect", "-m", "nothing.onnx"}, 7, "nothing.onnx"},
      {{"inspect", "no-such-name"}, 7, "no-such-name"},
      {{"inspect", "NOT A NAME"}, 2, "NOT A NAME"},
      {{"inspect", text.string()}, 4, "page.onnx"},
      {{"inspect", model("add.onnx"), "-m", model("add.onnx")}, 2, "both given"},
      {{"inspect", model("add.onnx"), "--threads", "2"}, 2, "--provider"},
      {{"inspect", "--provider", "cpu"}, 2, "MODEL"},
      {{"inspect", model("add.onnx"), "--provider", "cuda0"}, 2, "cuda"},
      {{"inspect", model("unknown_operator.onnx"), "--provider", "cpu"}, 4, "NoSuchOperator"},
      {{"providers", "--provider-library", "x"}, 2, "NAME=PATH"},
      {{"providers", "--provider-library", "x=/nonexistent.so"}, 7, "/nonexistent.so"},
  };
  for (const Refusal& refusal : refusals) {
    const Outcome outcome = gpux.run(refusal.arguments);
    EXPECT_EQ(outcome.code, refusal.code) << refusal.says << outcome.err;
    EXPECT_EQ(outcome.out, "") << refusal.says;
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(refusal.says));
  }
}

TEST(Providers, SaysOfEachWhyItIsThereOrNot) {
  const Program gpux;
  const Outcome outcome = gpux.run({"providers", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = outcome.json();
  EXPECT_TRUE(json["onnxruntime"].contains("version"));
  std::vector<std::string> ids;
  for (const Json& provider : json["providers"]) {
    ids.push_back(provider["id"]);
    EXPECT_NE(provider["available"].get<bool>(), !provider["reason"].get<std::string>().empty()) << provider;
    EXPECT_EQ(provider["available"].get<bool>(),
              !provider["source"].get<std::string>().empty() && provider["reason"].get<std::string>().empty());
    for (const char* name : {"aliases", "devices", "remedy", "core", "library", "option_names"}) {
      EXPECT_TRUE(provider.contains(name)) << name;
    }
  }
  EXPECT_THAT(ids, testing::IsSupersetOf({"cuda", "openvino", "webgpu"}));
  EXPECT_THAT(ids, testing::Contains("cpu"));
  const Outcome table = gpux.run({"providers", "--table"});
  EXPECT_THAT(table.out, HasSubstr("PROVIDER"));
  EXPECT_THAT(table.err, HasSubstr("ONNX Runtime"));
  EXPECT_EQ(gpux.run({"providers", "--table", "-q"}).err, "");
}

TEST(Providers, ListsALibraryOfTheUsersOwn) {
  const Program gpux;
  const Outcome outcome = gpux.run({"providers", "--json", "--provider-library", "mine=" GPUX_EXAMPLE_PROVIDER});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json mine = outcome.json()["providers"].back();
  EXPECT_EQ(mine["id"], "mine");
  EXPECT_EQ(mine["available"], true) << mine;
  EXPECT_EQ(mine["source"], "plugin");
  EXPECT_EQ(mine["library"], GPUX_EXAMPLE_PROVIDER);
  EXPECT_EQ(mine["devices"].size(), 1U);
}

TEST(Schema, IsOneJsonDocument) {
  const Program gpux;
  const Outcome outcome = gpux.run({"schema"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.json()["anyOf"][0]["properties"].contains("runtime"));
  EXPECT_EQ(gpux.run({"schema", "--json"}).out, outcome.out);
}

}  // namespace
}  // namespace gpux::test
