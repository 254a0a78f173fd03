#include <gmock/gmock.h>

#include "scenario.h"

namespace gpux {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

/// The example provider, which fails on command: local_function holds one Mul for it and an Add for the CPU.
class ExampleProvider : public Scenario {
 protected:
  json load(const std::string& command, std::vector<std::string> more = {}) {
    set("GPUX_EXAMPLE_FAIL", command);
    return load_plainly(std::move(more));
  }

  json load_plainly(std::vector<std::string> more) {
    std::vector<std::string> arguments{
        model("multiply"), "--library", std::string("example=").append(GPUX_EXAMPLE_PROVIDER),
        "--provider",      "example",   "--input",
        "a=3:1,2,3",       "--input",   "b=3:4,5,6"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

const std::vector<float> product{4, 10, 18};

TEST_F(ExampleProvider, ComputesWhatItClaims) {
  json report = load("", {"infer"});
  EXPECT_EQ(report["placement"], json({{"example", {"Mul"}}, {"cpu", {"Relu"}}}));
  EXPECT_EQ(attempt(report, "example")["ort_name"], "GpuxExampleExecutionProvider");
  EXPECT_EQ(output(report, 0), product);
  EXPECT_EQ(error_of(load("", {"--strict", "provider"})), "");
}

TEST_F(ExampleProvider, IsFoundAmongTheUsersProviders) {
  std::filesystem::create_directories(home() / "providers");
  std::filesystem::create_symlink(GPUX_EXAMPLE_PROVIDER, home() / "providers" / "mine.so");
  json report = run({model("multiply"), "--provider", "mine,cpu"});
  EXPECT_EQ(report["verdict"]["active"], json({"mine", "cpu"}));
}

// By the name of the package; the library says the name of the provider. It has no hardware, so auto passes over it.
TEST_F(ExampleProvider, IsFoundInAPythonPackageThatIsNotKnown) {
  const std::filesystem::path package = home() / "python/any/lib/python3.11/site-packages/onnxruntime_ep_sample";
  std::filesystem::create_directories(package);
  std::filesystem::create_symlink(GPUX_EXAMPLE_PROVIDER, package / "libsample.so");
  json report = run({model("multiply"), "--provider", "sample"});
  EXPECT_EQ(report["verdict"]["active"], json({"sample", "cpu"}));
  EXPECT_EQ(attempt(report, "sample")["ort_name"], "GpuxExampleExecutionProvider");
  EXPECT_EQ(attempt(report, "sample")["source"], "plugin");
  report = run({model("multiply"), "--provider", "auto"});
  EXPECT_EQ(report["verdict"]["active"], json({"cpu"}));
  EXPECT_EQ(attempt(report, "sample")["reason"], "only on a processor or software adapter here");
  report = run({model("multiply"), "--provider", "npu"});
  EXPECT_EQ(attempt(report, "sample")["reason"], "it has no NPU here");
}

TEST_F(ExampleProvider, StandsInForAProviderOfTheTable) {
  json report =
      run({model("multiply"), "--library", std::string("qnn=").append(GPUX_EXAMPLE_PROVIDER), "--provider", "qnn"});
  EXPECT_EQ(attempt(report, "qnn")["outcome"], "active");
  EXPECT_EQ(attempt(report, "qnn")["ort_name"], "GpuxExampleExecutionProvider");
}

// The example stands for CUDA's plugin, and names the option that it was passed, as it knows none.
TEST_F(ExampleProvider, IsPassedWhatKeepsFloat32) {
  const std::string library = std::string("cuda=").append(GPUX_EXAMPLE_PROVIDER);
  json report = run({model("multiply"), "--library", library, "--provider", "cuda", "--precision", "fp32"});
  EXPECT_EQ(attempt(report, "cuda")["outcome"], "failed");
  EXPECT_THAT(attempt(report, "cuda")["reason"].get<std::string>(), HasSubstr("knows no option 'use_tf32'"));
  report = run({model("multiply"), "--library", library, "--provider", "cuda"});
  EXPECT_EQ(attempt(report, "cuda")["outcome"], "active");
}

TEST_F(ExampleProvider, RunsOnTheDeviceThatIsRequested) {
  set("GPUX_EXAMPLE_DEVICES", "2");
  const std::string library = std::string("cuda=").append(GPUX_EXAMPLE_PROVIDER);
  for (const std::vector<std::string>& request :
       {std::vector<std::string>{"--device", "1"}, std::vector<std::string>{"--option", "cuda.device_id=1"}}) {
    std::vector<std::string> arguments{model("multiply"), "--library", library, "--provider", "cuda"};
    arguments.insert(arguments.end(), request.begin(), request.end());
    json report = run(arguments);
    EXPECT_EQ(attempt(report, "cuda")["device"], 1);
    EXPECT_EQ(attempt(report, "cuda")["devices"].size(), 2U);
    EXPECT_EQ(attempt(report, "cuda")["options"], json::object());
    EXPECT_THAT(report["line"].get<std::string>(),
                StartsWith("ran on cuda (1 of 2 nodes, device 1: example device 1), cpu (1 of 2 nodes)"));
  }
  json report = run({model("multiply"), "--library", library, "--provider", "cuda", "--device", "2"});
  EXPECT_EQ(attempt(report, "cuda")["reason"],
            "provider cuda: there is no device 2; accepted: 0 (example device 0), 1 (example device 1)");
  report = run({model("multiply"), "--library", std::string("example=").append(GPUX_EXAMPLE_PROVIDER), "--provider",
                "example", "--option", "example.enable_cuda_graph=1"});
  EXPECT_THAT(error_of(report), HasSubstr("usage: provider example: option 'enable_cuda_graph' is refused as '1'"));
}

// Wherever it fails, the CPU answers, the verdict says why, and strict ends the load.
TEST_F(ExampleProvider, FallsThroughWhereverItFails) {
  struct Case {
    const char* command;
    const char* outcome;
    const char* reason;
  };

  const Case cases[] = {{"load", "unavailable", "was set to fail at: load"},
                        {"no-device", "unavailable", "lists no device"},
                        {"create", "failed", "was set to fail at: create"},
                        {"capability", "failed", "was set to fail at: capability"},
                        {"claim-nothing", "no_nodes", "none of the model's nodes"},
                        {"compile", "failed", "was set to fail at: compile"}};
  for (const Case& c : cases) {
    json report = load(c.command, {"infer"});
    EXPECT_EQ(report["verdict"]["active"], json({"cpu"})) << c.command;
    EXPECT_EQ(report["verdict"]["fell_back"], true) << c.command;
    EXPECT_EQ(report["placement"], json({{"cpu", {"Mul", "Relu"}}})) << c.command;
    EXPECT_EQ(attempt(report, "example")["outcome"], c.outcome) << c.command;
    EXPECT_THAT(attempt(report, "example")["reason"].get<std::string>(), HasSubstr(c.reason)) << c.command;
    EXPECT_THAT(report["line"].get<std::string>(),
                StartsWith("ran on cpu (2 of 2 nodes); asked for example (--provider); not example: "));
    EXPECT_EQ(output(report, 0), product) << c.command;
    for (const char* level : {"provider", "nodes"}) {
      EXPECT_THAT(error_of(load(c.command, {"--strict", level})),
                  StartsWith("provider_unavailable: strict: example was requested (--provider): "))
          << c.command;
    }
  }
}

TEST_F(ExampleProvider, FailsOneRunOnly) {
  json report = load("run:2", {"infer", "infer", "infer"});
  EXPECT_EQ(output(report, 0), product);
  EXPECT_THAT(error_of(report["steps"][1]), HasSubstr("provider_unavailable: "));
  EXPECT_THAT(error_of(report["steps"][1]), HasSubstr("was set to fail at: run:2"));
  EXPECT_EQ(output(report, 2), product);
}

TEST_F(ExampleProvider, HangsWithoutHoldingTheCaller) {
  const std::string release = (home() / "release").string();
  set("GPUX_EXAMPLE_RELEASE", release);
  json report = load("hang", {"infer:200", "infer:200", "touch:" + release, "infer:60000", "infer"});
  EXPECT_THAT(error_of(report["steps"][0]),
              StartsWith("deadline_exceeded: no answer within 0.2 s; the run on example, cpu was signalled to stop"));
  EXPECT_THAT(error_of(report["steps"][1]),
              StartsWith("deadline_exceeded: the model (example, cpu) has not stopped yet"));
  EXPECT_EQ(output(report, 3), product);
  EXPECT_EQ(output(report, 4), product);
}

TEST_F(ExampleProvider, LetsTheProcessEndWhileItHangs) {
  json report = load("hang", {"infer:100"});
  EXPECT_THAT(error_of(report["steps"][0]), StartsWith("deadline_exceeded: "));
}

TEST_F(ExampleProvider, IsWaitedForWhereItIsOnlySlow) {
  json report = load("slow:600", {"infer:100", "infer:60000"});
  EXPECT_THAT(error_of(report["steps"][0]), StartsWith("deadline_exceeded: "));
  EXPECT_EQ(output(report, 1), product);
  EXPECT_GE(report["steps"][1]["ms"], 900);  // what is left of the first, and its own
}

TEST_F(ExampleProvider, TakesOptionsAndRefusesOthersByName) {
  json report = load("", {"--option", "example.fail=claim-nothing"});
  EXPECT_EQ(attempt(report, "example")["options"], json({{"fail", "claim-nothing"}}));
  EXPECT_EQ(attempt(report, "example")["outcome"], "no_nodes");
  EXPECT_THAT(
      error_of(load("", {"--option", "example.nonsense=1"})),
      testing::AllOf(StartsWith("usage: --option: provider example: "), HasSubstr("knows no option 'nonsense'")));
}

TEST_F(ExampleProvider, IsNotTakenFromAnyLibrary) {
  const std::string text = (home() / "text.so").string();
  std::filesystem::copy_file(model("add"), text);

  struct Case {
    std::string library;
    const char* reason;
  };

  const Case cases[] = {{GPUX_DEPS_DIR "/onnxruntime/lib/libonnxruntime.so.1", "CreateEpFactories"},
                        {text, "does not load"}};
  for (const Case& c : cases) {
    json report = run({model("multiply"), "--library", "wrong=" + c.library, "--provider", "wrong", "--input",
                       "a=3:1,2,3", "--input", "b=3:4,5,6", "infer"});
    EXPECT_EQ(attempt(report, "wrong")["outcome"], "unavailable");
    EXPECT_THAT(attempt(report, "wrong")["reason"].get<std::string>(), HasSubstr(c.reason));
    EXPECT_THAT(attempt(report, "wrong")["remedy"].get<std::string>(), HasSubstr("exports CreateEpFactories"));
    EXPECT_EQ(output(report, 0), product);
  }
  EXPECT_EQ(error_of(run({model("multiply"), "--library", "wrong=/nowhere.so", "--provider", "wrong"})),
            "not_found: provider library wrong: '/nowhere.so' does not exist");
}

TEST_F(ExampleProvider, LeavesNoProfileOfASessionThatFailed) {
  const std::filesystem::path profile = home() / "profiles" / "profile.json";
  std::filesystem::create_directory(profile.parent_path());
  (void)load("compile", {"--profile", profile, "infer"});
  EXPECT_TRUE(std::filesystem::exists(profile));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(profile.parent_path()), {}), 1);
  std::filesystem::remove(profile);
  EXPECT_THAT(error_of(load("", {"--profile", profile, "--memory", "1"})), StartsWith("resource_exhausted: "));
  EXPECT_THAT(error_of(load("compile", {"--profile", profile, "--strict", "provider"})),
              StartsWith("provider_unavailable: "));
  EXPECT_THAT(error_of(load("claim-nothing", {"--profile", profile, "--strict", "provider"})),
              StartsWith("provider_unavailable: "));
  EXPECT_TRUE(std::filesystem::is_empty(profile.parent_path()));
}

}  // namespace
}  // namespace gpux
