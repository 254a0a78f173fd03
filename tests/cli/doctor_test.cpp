#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sanitizers.h"
#include "cli/program.h"

namespace gpux::test {
namespace {

using testing::HasSubstr;

/// The check of that name; null, and a failed test, where there is none.
Json check_of(const Json& report, const std::string& name) {
  for (const Json& check : report["checks"]) {
    if (check["name"] == name) return check;
  }
  ADD_FAILURE() << "no check of '" << name << "' in " << report["checks"];
  return nullptr;
}

TEST(Doctor, FindsAHealthyMachineHealthy) {
  const Program gpux;
  const Outcome outcome = gpux.run({"doctor", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json report = outcome.json();
  EXPECT_EQ(report["works"], true);
  EXPECT_THAT(report["onnxruntime"]["path"].get<std::string>(), HasSubstr("libonnxruntime"));
  EXPECT_EQ(check_of(report, "cpu")["state"], "ok");
  EXPECT_EQ(check_of(report, "store")["state"], "ok");

  for (const Json& check : report["checks"]) {
    EXPECT_THAT(check["state"].get<std::string>(), testing::AnyOf("ok", "absent", "problem", "unknown")) << check;
    // What is wrong or not known is explained.
    if (check["state"] != "ok") {
      EXPECT_NE(check["found"], "") << check;
    }
  }
  EXPECT_THAT(outcome.err, HasSubstr("models run here"));
  const Outcome table = gpux.run({"doctor", "--table", "-q"});
  EXPECT_THAT(table.out, HasSubstr("\nproviders\n"));
  EXPECT_EQ(table.err, "");
}

// In the words of the verdict of a model in a sandbox, but for the limit of memory, which depends on the model.
TEST(Doctor, SaysWhatASandboxCanLimit) {
  if (has_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer has a thread of its own, and Landlock allows none";
  const Program gpux;
  const Json check = check_of(gpux.run({"doctor", "--quick", "--json"}).json(), "sandbox");
  EXPECT_EQ(check["area"], "isolation");
  const std::string found = check["found"];
  const Outcome run =
      gpux.run({"run", model("add.onnx"), "--input", R"({"x": [[1, 2, 3]]})", "--sandbox", "on", "--provider", "cpu"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(check["state"] == "ok", found.find("missing: ") == std::string::npos) << found;
  const std::string applied = found.substr(0, found.find("; missing: "));
  EXPECT_THAT(applied, testing::AnyOf(HasSubstr("sandboxed: "), HasSubstr("not sandboxed")));
  EXPECT_THAT(run.err, HasSubstr(applied));
  if (applied != found) {
    EXPECT_THAT(run.err, HasSubstr(found.substr(found.find("missing: "))));
  }
}

TEST(Doctor, SaysOfEveryAbsentProviderWhy) {
  const Program gpux;
  const Json report = gpux.run({"doctor", "--json"}).json();
  std::map<std::string, Json> checks;
  for (const Json& check : report["checks"]) {
    if (check["area"] == "providers") checks[check["name"]] = check;
  }
  EXPECT_EQ(checks.size(), report["providers"].size());
  for (const Json& provider : report["providers"]) {
    const Json& check = checks[provider["id"]];
    EXPECT_EQ(check["state"] == "ok", provider["available"].get<bool>()) << check;
    EXPECT_EQ(check["next"].get<std::string>().empty(), provider["remedy"].get<std::string>().empty()) << check;
  }
}

TEST(Doctor, StillExaminesWithoutAnOnnxRuntime) {
  const Program gpux;
  const Outcome outcome = gpux.run({"doctor", "--json"}, {.environment = {"GPUX_ONNXRUNTIME=/nonexistent"}});
  EXPECT_EQ(outcome.code, 5);
  const Json report = outcome.json();
  EXPECT_EQ(report["works"], false);
  EXPECT_EQ(report["onnxruntime"], nullptr);
  EXPECT_EQ(check_of(report, "cpu")["state"], "problem");
  EXPECT_THAT(outcome.err, HasSubstr("no model can run here"));

  const auto fake = gpux.folder().write("libonnxruntime.so.1.31.0", "no library");
  const Outcome broken = gpux.run({"doctor", "--json"}, {.environment = {"GPUX_ONNXRUNTIME=" + fake.string()}});
  EXPECT_EQ(broken.code, 5);
  EXPECT_EQ(check_of(broken.json(), fake.string())["state"], "unknown");
  EXPECT_THAT(check_of(broken.json(), "opening it")["found"].get<std::string>(), HasSubstr(fake.string()));
}

struct VariableCase {
  std::string set, name, state, says;
};

TEST(Doctor, NamesVariablesThatAreMistypedOrInvalid) {
  const Program gpux;
  const std::vector<VariableCase> cases = {
      {"GPUX_PROVDER=cuda", "GPUX_PROVDER", "problem", "did you mean GPUX_PROVIDER?"},
      {"GPUX_COLOUR_OF_THE_SKY=blue", "GPUX_COLOUR_OF_THE_SKY", "problem", "reads no variable"},
      {"GPUX_PROVIDER=cudda", "GPUX_PROVIDER", "problem", "did you mean 'cuda'?"},
      {"GPUX_PROVIDER=cuda,cpu", "GPUX_PROVIDER", "ok", "cuda,cpu"},
      {"GPUX_THREADS=many", "GPUX_THREADS", "problem", "accepted: 1 to 1024"},
      {"GPUX_THREADS=4", "GPUX_THREADS", "ok", "4"},
      {"GPUX_INTER_THREADS=0", "GPUX_INTER_THREADS", "problem", "1 to 1024"},
      {"GPUX_DEVICE=-1", "GPUX_DEVICE", "problem", "accepted: a number"},
      {"GPUX_MEMORY=bananaGB", "GPUX_MEMORY", "problem", "2GB"},
      {"GPUX_PRECISION=fp17", "GPUX_PRECISION", "problem", "fp16"},
      {"GPUX_STRICT=perhaps", "GPUX_STRICT", "problem", "nodes"},
      {"GPUX_OPTIMIZATION=much", "GPUX_OPTIMIZATION", "problem", "extended"},
      {"GPUX_TIMEOUT=soon", "GPUX_TIMEOUT", "problem", "500ms"},
      {"GPUX_TIMEOUT=5s", "GPUX_TIMEOUT", "ok", "5s"},
  };
  for (const VariableCase& one : cases) {
    const Outcome outcome = gpux.run({"doctor", "--json"}, {.environment = {one.set}});
    EXPECT_EQ(outcome.code, 0) << one.set;
    const Json check = check_of(outcome.json(), one.name);
    EXPECT_EQ(check["state"], one.state) << one.set;
    EXPECT_THAT(check["found"].get<std::string>() + check["next"].get<std::string>(), HasSubstr(one.says)) << one.set;
    if (one.state == "problem") {
      EXPECT_GE(outcome.json()["problems"].get<int>(), 1);
    }
  }
}

TEST(Doctor, SaysWhereTheHomeIsNoFolder) {
  const Program gpux;
  gpux.folder().write("home", "a file");
  const Outcome outcome = gpux.run({"doctor", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json check = check_of(outcome.json(), "GPUX_HOME " + gpux.home().string());
  EXPECT_EQ(check["state"], "problem");
  EXPECT_THAT(check["found"].get<std::string>(), HasSubstr("is no folder"));
}

TEST(Doctor, SaysThatTheHomeDoesNotExistYet) {
  const Program gpux;
  const std::string name = "GPUX_HOME " + gpux.home().string();
  const Outcome outcome = gpux.run({"doctor", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(check_of(outcome.json(), name)["state"], "ok");
  EXPECT_THAT(check_of(outcome.json(), name)["found"].get<std::string>(), HasSubstr("does not exist yet"));

  const Outcome images = gpux.run({"images"});
  EXPECT_EQ(images.code, 0);
  EXPECT_TRUE(is_one_line(images.err)) << images.err;
  EXPECT_THAT(images.err, HasSubstr("'" + gpux.home().string() + "' does not exist yet"));
  EXPECT_EQ(gpux.run({"images", "--json"}).out, "[]\n");
  EXPECT_EQ(gpux.run({"images", "-q"}).err, "");
  EXPECT_FALSE(std::filesystem::exists(gpux.home()));

  std::filesystem::create_directory(gpux.home());
  EXPECT_EQ(gpux.run({"images"}).err, "");
}

// Without pip its command has further words on every system.
TEST(Doctor, PrintsTheRemedyThatOtherCommandsPrint) {
  const Program gpux;
  const Surroundings where{.environment = {"PATH=/nowhere"}};
  std::string remedy;
  const Json report = gpux.run({"providers", "--json"}, where).json();
  for (const Json& provider : report["providers"]) {
    if (provider["id"] == "qnn") remedy = provider["remedy"];
  }
  EXPECT_THAT(remedy, testing::StartsWith("sudo apt install python3-pip && gpux providers install "));
  EXPECT_EQ(check_of(gpux.run({"doctor", "--json", "--quick"}, where).json(), "qnn")["next"], remedy);
  const std::vector<std::string> run{"run", model("add.onnx"), "-i", R"({"x": [[1, 2, 3]]})", "-p", "qnn"};
  EXPECT_THAT(gpux.run(run, where).err, HasSubstr("(remedy: " + remedy + ")"));
  std::vector<std::string> strict = run;
  strict.emplace_back("--strict");
  EXPECT_THAT(gpux.run(strict, where).err, HasSubstr("; remedy: " + remedy));
}

TEST(Doctor, FindsADamagedModelInTheStore) {
  const Program gpux;
  ASSERT_EQ(gpux.run({"build", model("add.onnx"), "-t", "good:1"}).code, 0);
  ASSERT_EQ(gpux.run({"build", model("divide.onnx"), "-t", "bad:1"}).code, 0);
  const std::string id = gpux.run({"inspect", "--json", "bad:1"}).json()["package"]["id"];
  std::filesystem::path manifest;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(gpux.home())) {
    if (entry.path().filename() == id.substr(id.find(':') + 1) && entry.is_regular_file()) manifest = entry.path();
  }
  ASSERT_FALSE(manifest.empty());
  std::filesystem::remove(manifest);
  const Json report = gpux.run({"doctor", "--json"}).json();
  const Json check = check_of(report, "bad:1");
  EXPECT_EQ(check["state"], "problem");
  EXPECT_THAT(check["next"].get<std::string>(), HasSubstr("gpux rm bad:1"));
  for (const Json& other : report["checks"]) EXPECT_NE(other["name"], "good:1");
}

TEST(Doctor, ReadsTheFilesOfStoredModels) {
  const Program gpux;
  ASSERT_EQ(gpux.run({"build", model("add.onnx"), "-t", "good:1", "-t", "also-good:1"}).code, 0);
  ASSERT_EQ(gpux.run({"build", model("divide.onnx"), "-t", "bad:1"}).code, 0);
  EXPECT_THAT(check_of(gpux.run({"doctor", "--json"}).json(), "store")["found"].get<std::string>(),
              testing::MatchesRegex("3 named models, none damaged: .* read and compared"));
  const std::string content = content_of(model("divide.onnx"));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(gpux.home() / "blobs")) {
    if (!entry.is_regular_file() || content_of(entry.path()) != content) continue;
    std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
    std::ofstream(entry.path()) << std::string(content.size(), 'x');
  }
  const Json report = gpux.run({"doctor", "--json"}).json();
  EXPECT_EQ(check_of(report, "bad:1")["state"], "problem");
  EXPECT_EQ(check_of(report, "bad:1")["found"], "'divide.onnx' has changed");
  for (const Json& other : report["checks"]) EXPECT_NE(other["name"], "good:1");
  EXPECT_EQ(check_of(gpux.run({"doctor", "--json", "--quick"}).json(), "store")["found"],
            "3 named models, none damaged: their files were not read (--quick)");
  ASSERT_EQ(gpux.run({"build", model("divide.onnx"), "-t", "bad:1"}).code, 0);
  EXPECT_EQ(check_of(gpux.run({"doctor", "--json"}).json(), "store")["state"], "ok");
}

TEST(Doctor, SeesTheDriversThatVulkanWouldLoad) {
  const Program gpux;
  const auto manifest =
      gpux.folder().write("mine.json", R"({"ICD": {"library_path": "./gone.so", "api_version": "1.3.0"}})");
  const auto damaged = gpux.folder().write("damaged.json", R"(["ICD")");
  const Json report =
      gpux.run({"doctor", "--json"}, {.environment = {"VK_DRIVER_FILES=" + manifest.string() + ":" + damaged.string()}})
          .json();
  EXPECT_EQ(check_of(report, "Vulkan driver mine.json")["state"], "problem");
  EXPECT_THAT(check_of(report, "Vulkan driver mine.json")["found"].get<std::string>(), HasSubstr("gone.so"));
  EXPECT_EQ(check_of(report, "Vulkan driver damaged.json")["state"], "problem");
  gpux.folder().write("gone.so", "");
  const Json better = gpux.run({"doctor", "--json"}, {.environment = {"VK_DRIVER_FILES=" + manifest.string()}}).json();
  EXPECT_EQ(check_of(better, "Vulkan driver mine.json")["state"], "ok");
}

TEST(Doctor, ListsProviderLibrariesInTheHome) {
  const Program gpux;
  std::filesystem::create_directories(gpux.home() / "providers");
  std::filesystem::copy_file(GPUX_EXAMPLE_PROVIDER, gpux.home() / "providers" / "libmine.so");
  const Json report = gpux.run({"doctor", "--json"}).json();
  std::vector<std::string> areas;
  for (const Json& check : report["checks"]) {
    if (check["name"] == "libmine") areas.push_back(check["area"]);
  }
  EXPECT_THAT(areas, testing::ElementsAre("provider libraries", "providers"));
}

}  // namespace
}  // namespace gpux::test
