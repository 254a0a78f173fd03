#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "onnx/fused_attention.h"
#include "scenario.h"

namespace gpux {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

/// The WebGPU plugin on a software Vulkan device.
class WebGpu : public Scenario {
 protected:
  void SetUp() override {
    Scenario::SetUp();
    if (IsSkipped()) return;
    if (!has(Part::webgpu) || !has(Part::vulkan)) {
      GTEST_SKIP() << "no WebGPU plugin or software Vulkan in " GPUX_DEPS_DIR ": scripts/setup fetches them";
    }
    install(Part::webgpu);
    set_software_vulkan();
  }

  json load(const std::string& provider, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{model("split"), "--provider", provider, "--input", split_input()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }

  // What falls back gives the CPU's answer, and says so.
  void expect_fallback(const std::string& outcome, const std::string& reason, const std::string& remedy) {
    json report = load("webgpu", {"infer"});
    EXPECT_EQ(report["verdict"]["active"], json({"cpu"}));
    EXPECT_EQ(report["verdict"]["fell_back"], true);
    EXPECT_EQ(attempt(report, "webgpu")["outcome"], outcome);
    EXPECT_THAT(attempt(report, "webgpu")["reason"].get<std::string>(), HasSubstr(reason));
    EXPECT_THAT(attempt(report, "webgpu").value("remedy", ""), HasSubstr(remedy));
    EXPECT_EQ(difference(output(report, 0), output(load("cpu", {"infer"}), 0)), 0);
    EXPECT_THAT(report["line"].get<std::string>(), HasSubstr("not webgpu: "));
    for (const char* level : {"provider", "nodes"}) {
      EXPECT_THAT(error_of(load("webgpu", {"--strict", level})),
                  StartsWith("provider_unavailable: strict: webgpu was requested (--provider): "));
    }
  }
};

TEST_F(WebGpu, SharesAModelWithTheCpu) {
  json report = load("webgpu", {"infer"});
  EXPECT_EQ(report["verdict"]["active"], json({"webgpu", "cpu"}));
  EXPECT_EQ(report["verdict"]["fell_back"], false);
  EXPECT_EQ(report["placement"]["cpu"], json({"Det"}));
  EXPECT_THAT(report["placement"]["webgpu"].get<std::vector<std::string>>(), testing::Contains("Conv"));
  EXPECT_EQ(attempt(report, "webgpu")["ort_name"], "WebGpuExecutionProvider");
  EXPECT_EQ(attempt(report, "webgpu")["devices"].size(), 1U);
  EXPECT_EQ(attempt(report, "webgpu")["nodes"].get<int>() + attempt(report, "cpu")["nodes"].get<int>(),
            report["verdict"]["node_count"].get<int>());
  EXPECT_LT(difference(output(report, 0), output(load("cpu", {"infer"}), 0)), 1e-5);
}

TEST_F(WebGpu, ComesFromALibraryThatIsGiven) {
  std::filesystem::remove_all(home() / "providers");
  EXPECT_EQ(attempt(load("webgpu"), "webgpu")["outcome"], "unavailable");
  json report = load("webgpu", {"--library", "webgpu=" GPUX_DEPS_DIR "/webgpu/libonnxruntime_providers_webgpu.so"});
  EXPECT_EQ(attempt(report, "webgpu")["outcome"], "active");
}

TEST_F(WebGpu, TakesItsOwnOptions) {
  json report = load("webgpu", {"--option", "webgpu.preferredLayout=NCHW", "infer"});
  EXPECT_EQ(attempt(report, "webgpu")["options"], json({{"preferredLayout", "NCHW"}}));
  EXPECT_EQ(attempt(report, "webgpu")["outcome"], "active");
  // Without a change of layout nothing has to be turned round.
  EXPECT_THAT(report["placement"]["webgpu"].get<std::vector<std::string>>(),
              testing::Not(testing::Contains("Transpose")));
  EXPECT_LT(difference(output(report, 0), output(load("cpu", {"infer"}), 0)), 1e-5);
  EXPECT_THAT(
      error_of(load("webgpu", {"--option", "webgpu.preferedLayout=NCHW"})),
      HasSubstr(
          "usage: --option: provider webgpu: option 'preferedLayout' is not known, did you mean 'preferredLayout'?"));
}

TEST_F(WebGpu, FallsThroughWhereItListsNoDevice) {
  set("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "0");
  expect_fallback("unavailable", "lists no device", "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1");
}

TEST_F(WebGpu, FallsThroughWhereNoSessionComesToBe) {
  set("VK_ICD_FILENAMES", "/nonexistent.json");
  expect_fallback("failed", "no session came to be with it: ", "");
  EXPECT_THAT(attempt(load("webgpu"), "webgpu")["reason"].get<std::string>(), HasSubstr("No supported adapters"));
}

TEST_F(WebGpu, NamesTheLibraryThatIsMissing) {
  if (std::filesystem::exists("/usr/lib/x86_64-linux-gnu/libvulkan.so.1"))
    GTEST_SKIP() << "this machine has a Vulkan loader";
  set("LD_LIBRARY_PATH", "");
  expect_fallback("unavailable", "libvulkan.so.1: not found (libonnxruntime_providers_webgpu.so needs it)",
                  "install the package that brings libvulkan.so.1");
}

TEST_F(WebGpu, IsStrictAboutNodesElsewhere) {
  EXPECT_EQ(error_of(load("webgpu", {"--strict", "provider"})), "");
  EXPECT_THAT(
      error_of(load("webgpu", {"--strict", "nodes"})),
      testing::MatchesRegex("provider_unavailable: strict=nodes: 1 of [0-9]+ nodes run on cpu, outside 'webgpu'"));
  EXPECT_THAT(error_of(load("webgpu,", {"--strict", "nodes"})), StartsWith("provider_unavailable: strict=nodes"));
  EXPECT_EQ(error_of(load("webgpu,cpu", {"--strict", "nodes"})), "");
}

TEST_F(WebGpu, IsNeverAutosChoiceOnASoftwareAdapter) {
  for (const char* request : {"auto", "gpu"}) {
    json report = load(request);
    EXPECT_EQ(report["verdict"]["active"], json({"cpu"})) << request;
    EXPECT_EQ(attempt(report, "webgpu")["outcome"], "not_needed");
    EXPECT_EQ(attempt(report, "webgpu")["remedy"], "ask for it by name: provider webgpu");
  }
  EXPECT_THAT(error_of(load("gpu", {"--strict", "provider"})),
              HasSubstr("provider_unavailable: strict: no gpu can be used on this machine"));
  EXPECT_EQ(error_of(load("auto", {"--strict", "provider"})), "");
}

TEST_F(WebGpu, SaysWhichDevicesItHas) {
  json report = load("webgpu", {"--device", "3"});
  EXPECT_EQ(attempt(report, "webgpu")["outcome"], "unavailable");
  EXPECT_EQ(attempt(report, "webgpu")["reason"], "provider webgpu: there is no device 3; accepted: 0");
  EXPECT_EQ(attempt(report, "webgpu")["options"], json::object());
}

// Two providers in one session: the one that works keeps its nodes, whichever of the two comes first.
TEST_F(WebGpu, IsNotLostWithAnotherProviderThatFails) {
  const std::string library = std::string("example=").append(GPUX_EXAMPLE_PROVIDER);
  for (const char* failure : {"create", "compile"}) {
    for (const char* request : {"webgpu,example,cpu", "example,webgpu,cpu"}) {
      SCOPED_TRACE(std::string(failure) + " of " + request);
      set("GPUX_EXAMPLE_FAIL", failure);
      json report = run({model("multiply"), "--library", library, "--provider", request, "--input", "a=3:1,2,3",
                         "--input", "b=3:4,5,6", "infer"});
      EXPECT_EQ(report["verdict"]["active"], json({"webgpu"}));
      EXPECT_EQ(attempt(report, "webgpu")["outcome"], "active");
      // As the second it has nothing left to compile.
      const bool fails = failure == std::string("create") || request[0] == 'e';
      EXPECT_EQ(attempt(report, "example")["outcome"], fails ? "failed" : "no_nodes");
      EXPECT_EQ(output(report, 0), (std::vector<float>{4, 10, 18}));
    }
  }
}

// Two inputs of 12 bytes are copied once, and the product of the last of three runs.
TEST_F(WebGpu, KeepsValuesOnTheDevice) {
  json report = run(
      {model("multiply"), "--provider", "webgpu", "--input", "a=3:1,2,3", "--input", "b=3:4,5,6", "infer", "device:3"});
  ASSERT_EQ(error_of(report), "");
  EXPECT_EQ(report["verdict"]["active"], json::array({"webgpu"}));
  const json& step = report["steps"][1];
  EXPECT_EQ(step["on_device"], true) << step;
  EXPECT_EQ(step["transfers"], json({2, 24, 1, 12}));
  EXPECT_EQ(step["outputs"], report["steps"][0]["outputs"]);
  EXPECT_EQ(output(report, 0), (std::vector<float>{4, 10, 18}));
}

// The same tokens as on the CPU, in a graph with GroupQueryAttention and in one without.
TEST_F(WebGpu, KeepsKeysAndValuesOfTextsOnTheDevice) {
  const std::string generation = GPUX_SOURCE_DIR "/tests/generation/";
  ASSERT_EQ(run({"import", generation + "references/qwen3", "-t", "tiny", "--json"}, GPUX_PROGRAM).count("error"), 0U);
  const std::string shared =
      "keys and values stay on the device, where the model writes them, and texts share runs: their logits were those "
      "of each alone, bit by bit; prompts run token by token: in runs of several tokens the provider gives other "
      "logits";
  const std::string alone = "keys and values stay on the device, and each text runs alone";
  for (const auto& [decoder, note] :
       {std::pair(std::string("tiny"), shared), std::pair(generation + "folders/optimum", alone)}) {
    SCOPED_TRACE(decoder);
    const auto generate = [&, name = decoder](const std::string& provider) {
      return run({"generate", name, "w1 w2 w3", "--max-tokens", "8", "--ignore-eos", "--json", "--provider", provider},
                 GPUX_PROGRAM);
    };
    const json there = generate("webgpu"), here = generate("cpu");
    EXPECT_EQ(there.at("tokens"), here.at("tokens"));
    EXPECT_EQ(there.at("tokens").size(), 8U);
    EXPECT_THAT(there.at("verdict").at("notes").get<std::vector<std::string>>(), testing::Contains(note));
    EXPECT_THAT(here.at("verdict").at("notes").get<std::vector<std::string>>(), testing::Not(testing::Contains(note)));
  }
}

// Attention only if WebGPU computes it right on this device: releases are known that do not, on a software device.
TEST_F(WebGpu, RunsFusedOperatorsThatAreRight) {
  const std::filesystem::path model = home() / "fused.onnx";
  std::ofstream(model, std::ios::binary) << onnx::fusion_example({{2, 4, 1, true}}, {{8, false, true, true}}, false);
  constexpr int length = 40;
  const auto input = [](int number, const std::string& sizes, int count) {
    std::string text = "input." + std::to_string(number) + "=" + sizes + ":";
    for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + std::to_string((i * (number + 3)) % 11 - 5);
    return text;
  };
  std::vector<std::string> arguments{model};
  const std::string sizes = "1," + std::to_string(length) + ",8";
  for (const int number : {0, 1, 2, 4, 5}) {
    arguments.insert(arguments.end(), {"--input", input(number, sizes, length * 8)});
  }
  arguments.insert(arguments.end(), {"--input", input(3, "1,1,1," + std::to_string(length), length)});
  const auto load = [&](const std::string& provider) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--provider", provider, "infer"});
    return run(all);
  };
  const json there = load("webgpu"), here = load("cpu");
  ASSERT_EQ(error_of(there), "");
  const auto notes = there["verdict"]["notes"].get<std::vector<std::string>>();
  const auto placed = there["placement"]["webgpu"].get<std::vector<std::string>>();
  EXPECT_THAT(notes, testing::Contains(AllOf(StartsWith("nodes are fused: "), HasSubstr("1 SkipLayerNormalization"))));
  EXPECT_THAT(placed, testing::Contains("SkipLayerNormalization"));
  const bool is_right = std::ranges::none_of(
      notes, [](const std::string& note) { return note.starts_with("attention is not fused: an example of it is "); });
  EXPECT_EQ(std::ranges::count(placed, "MultiHeadAttention"), is_right ? 1 : 0);
  EXPECT_EQ(std::ranges::count(placed, "Softmax"), is_right ? 0 : 1);
  EXPECT_THAT(here["verdict"]["notes"].get<std::vector<std::string>>(),
              testing::Not(testing::Contains(HasSubstr("fused"))));
  for (const char* name : {"output.0", "output.1", "output.2"}) {
    const auto of = [&](const json& report) { return report["steps"][0]["outputs"][name].get<std::vector<float>>(); };
    EXPECT_LT(difference(of(there), of(here)), 1e-4) << name;
  }
}

TEST_F(WebGpu, TellsThatItHasNoMemoryLimit) {
  json report = load("webgpu", {"--memory", "100000000000"});
  EXPECT_EQ(error_of(report), "");
}

TEST_F(WebGpu, BlamesTheModelWhereNobodyCanLoadIt) {
  for (const char* level : {"provider", "nodes"}) {
    json report = run({model("opset_too_new"), "--provider", "webgpu", "--strict", level});
    EXPECT_THAT(error_of(report), StartsWith("invalid_model: ")) << level;
  }
}

/// An ONNX Runtime with WebGPU built in, on a software Vulkan device: a provider that is no plugin, whose memory is not
/// the host's, as that of CUDA and TensorRT.
class BuiltInWebGpu : public Scenario {
 protected:
  void SetUp() override {
    Scenario::SetUp();
    if (IsSkipped()) return;
    if (!has(Part::webgpu_core) || !has(Part::vulkan)) {
      GTEST_SKIP() << "no ONNX Runtime with WebGPU or software Vulkan in " GPUX_DEPS_DIR ": scripts/setup fetches them";
    }
    install(Part::webgpu_core);
    set_software_vulkan();
  }

  json load(const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{model(name), "--provider", "webgpu"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

// ONNX Runtime does not list nodes that it has changed to another layout.
TEST_F(BuiltInWebGpu, RunsNodesThatAreNotListed) {
  json report = load("multiply", {"--input", "a=3:1,2,3", "--input", "b=3:4,5,6", "infer"});
  EXPECT_EQ(report["verdict"]["active"], json({"webgpu"})) << report["line"];
  EXPECT_EQ(report["verdict"]["fell_back"], false);
  EXPECT_EQ(report["verdict"]["placement_known"], false);
  EXPECT_EQ(attempt(report, "webgpu")["outcome"], "active");
  EXPECT_EQ(attempt(report, "webgpu")["source"], "built in");
  EXPECT_EQ(attempt(report, "cpu")["outcome"], "not_needed");
  EXPECT_EQ(report["placement"], json::object());
  EXPECT_THAT(report["line"].get<std::string>(), StartsWith("ran on webgpu; asked for webgpu"));
  EXPECT_THAT(report["line"].get<std::string>(), HasSubstr("does not list those of webgpu"));
  EXPECT_EQ(output(report, 0), (std::vector<float>{4, 10, 18}));
  for (const char* level : {"provider", "nodes"}) EXPECT_EQ(error_of(load("multiply", {"--strict", level})), "");
}

TEST_F(BuiltInWebGpu, SharesAModelWithTheCpu) {
  json report = load("split", {"--input", split_input(), "infer"});
  EXPECT_EQ(report["verdict"]["active"], json({"webgpu", "cpu"})) << report["line"];
  EXPECT_EQ(report["verdict"]["placement_known"], false);
  EXPECT_EQ(error_of(load("split", {"--strict", "provider"})), "");
  EXPECT_EQ(error_of(load("split", {"--strict", "nodes"})),
            "provider_unavailable: strict=nodes: nodes run on cpu, outside 'webgpu'");
  // Without the change of layout all are listed.
  report = load("split", {"--input", split_input(), "--option", "webgpu.preferredLayout=NCHW", "infer"});
  EXPECT_EQ(report["verdict"]["placement_known"], true);
  EXPECT_EQ(report["placement"]["cpu"], json({"Det"}));
  EXPECT_THAT(report["placement"]["webgpu"].get<std::vector<std::string>>(), testing::Contains("Conv"));
}

// A worker process prepares memory for outputs as large as those of the run before. ONNX Runtime copies outputs of this
// provider there without a look at their shape.
TEST_F(BuiltInWebGpu, GivesOutputsWhoseShapesDependOnValuesInAWorkerProcess) {
  json numbers = json::array(), inputs = json::array();
  for (int i = 0; i < 20'000; ++i) numbers.push_back(i);
  const std::vector<std::pair<int, int>> shapes{{100, 200}, {100, 200}, {50, 400}, {200, 100}, {100, 200}};
  for (const auto& [rows, columns] : shapes) inputs.push_back({{"x", numbers}, {"shape", {rows, columns}}});
  const std::filesystem::path file = home() / "inputs.json";
  std::ofstream(file) << inputs;
  const json results = run({"run", model("reshape"), "--provider", "webgpu", "--strict=provider", "--isolation",
                            "process", "--input", "@" + file.string()},
                           GPUX_PROGRAM);
  ASSERT_EQ(results.size(), shapes.size()) << results;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const json& y = results[i].at("y");
    ASSERT_EQ(y.size(), shapes[i].first) << i;
    ASSERT_EQ(y.back().size(), shapes[i].second) << i;
    EXPECT_EQ(y.front().front(), 0);
    EXPECT_EQ(y.back().back(), 19'999);
  }
}

}  // namespace
}  // namespace gpux
