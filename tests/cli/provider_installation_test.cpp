// `gpux providers install` from wheels that are made here: pip is run, the network is not used.
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/files.h"
#include "cli/program.h"
#include "gpux/error.h"

namespace gpux::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

bool has_pip() {
  try {
    return run_process({"python3", "-m", "pip", "--version"}).exit_code == 0;
  } catch (const Error&) {
    return false;
  }
}

// A wheel is a zip archive with a few files of its own.
constexpr const char* wheel_script = R"(
import sys, zipfile
folder, name, version, file, source, tag = sys.argv[1:]
package = name.replace("-", "_")
info = f"{package}-{version}.dist-info/"
with zipfile.ZipFile(f"{folder}/{package}-{version}-{tag}.whl", "w") as wheel:
    wheel.write(source, file)
    wheel.writestr(info + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    wheel.writestr(info + "WHEEL", f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n")
    wheel.writestr(info + "RECORD", "")
)";

const std::string library = "onnxruntime_ep_webgpu/libonnxruntime_providers_webgpu.so";

class Installation : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_pip()) GTEST_SKIP() << "there is no python3 with pip";
    fs::create_directories(wheels());
    add_wheel("0.4.0");
    add_wheel("0.5.0");
  }

  [[nodiscard]] fs::path wheels() const { return program_.folder().path() / "wheels"; }

  // The library in it is the example provider: a plugin that ONNX Runtime can load.
  void add_wheel(const std::string& version, const std::string& tag = "py3-none-any") const {
    const ProcessResult result = run_process({"python3", "-c", wheel_script, wheels().string(), "onnxruntime-ep-webgpu",
                                              version, library, GPUX_EXAMPLE_PROVIDER, tag});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  }

  [[nodiscard]] Outcome providers(std::vector<std::string> arguments, const Surroundings& where = {}) const {
    arguments.insert(arguments.begin(), "providers");
    return program_.run(arguments, where);
  }

  [[nodiscard]] Outcome install(const std::string& name) const {
    return providers({"install", name, "--from", wheels().string(), "--json"});
  }

  [[nodiscard]] std::vector<std::string> installed() const {
    std::vector<std::string> names;
    const Json all = providers({"installed", "--json"}).json();
    for (const Json& provider : all) {
      names.push_back(provider["name"].get<std::string>() + "@" + provider["version"].get<std::string>());
    }
    return names;
  }

  // The provider as `gpux providers` reports it.
  [[nodiscard]] Json report() const {
    const Json all = providers({"--json"}).json();
    for (const Json& provider : all["providers"]) {
      if (provider["id"] == "webgpu") return provider;
    }
    return nullptr;
  }

  [[nodiscard]] fs::path folder_of(const std::string& version) const {
    return program_.home() / "providers" / "webgpu" / version;
  }

  Program program_;
};

TEST_F(Installation, PutsVersionsSideBySideAndUsesTheNewest) {
  const Outcome older = install("webgpu@0.4.0");
  ASSERT_EQ(older.code, 0) << older.err;
  EXPECT_EQ(report()["library"], fs::canonical(folder_of("0.4.0") / "site-packages" / library).string());
  const Outcome newest = install("webgpu");
  ASSERT_EQ(newest.code, 0) << newest.err;
  const Json result = newest.json();
  ASSERT_EQ(result.size(), 1U);
  EXPECT_EQ(result[0]["name"], "webgpu");
  EXPECT_EQ(result[0]["version"], "0.5.0");
  EXPECT_EQ(result[0]["was_there"], false);
  EXPECT_EQ(result[0]["packages"][0]["wheel"], "onnxruntime_ep_webgpu-0.5.0-py3-none-any.whl");
  EXPECT_EQ(result[0]["packages"][0]["sha256"].get<std::string>().size(), 64U);
  EXPECT_THAT(installed(), ElementsAre("webgpu@0.5.0", "webgpu@0.4.0"));
  EXPECT_EQ(report()["library"], fs::canonical(folder_of("0.5.0") / "site-packages" / library).string());
  EXPECT_EQ(report()["source"], "plugin");
  // Nothing of the making is left.
  for (const auto& entry : fs::directory_iterator(folder_of("0.5.0").parent_path())) {
    EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("0.4.0", "0.5.0"));
  }
}

TEST_F(Installation, OfWhatIsThereChangesNothing) {
  ASSERT_EQ(install("webgpu").code, 0);
  const auto time = fs::last_write_time(folder_of("0.5.0") / "installed.json");
  const Outcome again = install("webgpu");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()[0]["was_there"], true);
  EXPECT_THAT(again.err, HasSubstr("already installed"));
  EXPECT_EQ(fs::last_write_time(folder_of("0.5.0") / "installed.json"), time);
}

TEST_F(Installation, OnlySaysWhatItWouldDo) {
  const Outcome outcome = providers({"install", "webgpu", "--from", wheels().string(), "--dry-run"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("onnxruntime-ep-webgpu  0.5.0"));
  EXPECT_THAT(outcome.err, HasSubstr("nothing was installed"));
  EXPECT_FALSE(fs::exists(program_.home() / "providers" / "webgpu"));
}

TEST_F(Installation, ThatChangedIsSaidNotLoadedAndReplaced) {
  ASSERT_EQ(install("webgpu").code, 0);
  EXPECT_EQ(providers({"check"}).code, 0);
  const fs::path file = folder_of("0.5.0") / "site-packages" / library;
  std::string content = read_file(file);
  content[content.size() / 2] = static_cast<char>(~content[content.size() / 2]);
  write_file_atomically(file, content);

  const Outcome check = providers({"check", "webgpu@0.5.0", "--json"});
  EXPECT_EQ(check.code, 5) << check.err;
  EXPECT_EQ(check.json()[0]["damage"], "'" + library + "' has changed");
  const Json unused = report();
  EXPECT_EQ(unused["available"], false);
  EXPECT_THAT(unused["reason"].get<std::string>(), HasSubstr("the installation webgpu 0.5.0 is damaged"));
  bool is_told = false;
  const Json examination = program_.run({"doctor", "--json"}).json();
  for (const Json& line : examination["checks"]) {
    is_told = is_told || (line["name"] == "webgpu@0.5.0" && line["state"] == "problem" &&
                          line["next"] == "gpux providers install webgpu@0.5.0");
  }
  EXPECT_TRUE(is_told);

  EXPECT_EQ(install("webgpu@0.5.0").json()[0]["was_there"], false);
  EXPECT_EQ(providers({"check"}).code, 0);
}

TEST_F(Installation, IsRemovedUnlessAProcessUsesIt) {
  ASSERT_EQ(install("webgpu@0.4.0").code, 0);
  ASSERT_EQ(install("webgpu").code, 0);
  {
    const FileLock use(folder_of("0.4.0") / "in-use.lock", FileLock::Mode::shared);
    const Outcome refused = providers({"remove", "webgpu@0.4.0"});
    EXPECT_EQ(refused.code, 11) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("a process uses it"));
    EXPECT_THAT(installed(), ElementsAre("webgpu@0.5.0", "webgpu@0.4.0"));
  }
  EXPECT_EQ(providers({"remove", "webgpu@0.4.0"}).code, 0);
  EXPECT_THAT(installed(), ElementsAre("webgpu@0.5.0"));
  EXPECT_EQ(providers({"remove", "webgpu"}).code, 0);
  EXPECT_THAT(installed(), IsEmpty());
  EXPECT_FALSE(fs::exists(folder_of("0.5.0").parent_path()));
}

// Whenever it is killed: what was installed is whole, or not found.
TEST_F(Installation, ThatIsKilledIsNotFound) {
  const Started started = start(program_, {"providers", "install", "webgpu", "--from", wheels().string()},
                                program_.folder().path() / "log", false, {});
  const fs::path folder = folder_of("0.5.0").parent_path();
  for (int i = 0; i < 2000 && !fs::exists(folder); ++i) ::usleep(1000);
  ASSERT_TRUE(fs::exists(folder));
  ::kill(started.child, SIGKILL);
  int status = 0;
  ::waitpid(started.child, &status, 0);
  ::close(started.out);
  EXPECT_THAT(installed(), IsEmpty());
  EXPECT_EQ(report()["reason"], "not installed");
  // The next one takes away what was left.
  ASSERT_EQ(install("webgpu").code, 0);
  EXPECT_THAT(installed(), ElementsAre("webgpu@0.5.0"));
}

// One that reports nothing of what it would install.
TEST_F(Installation, RefusesAPipThatIsTooOld) {
  const fs::path programs = program_.folder().path() / "programs";
  fs::create_directories(programs);
  program_.folder().write("programs/python3", "#!/bin/sh\necho pip 20.3.4 from /usr/lib/python3\n");
  fs::permissions(programs / "python3", fs::perms::owner_all);
  const Outcome outcome = providers({"install", "webgpu", "--from", wheels().string()},
                                    {.environment = {"PATH=" + programs.string() + ":/usr/bin:/bin"}});
  EXPECT_EQ(outcome.code, 7) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("python3 has pip 20.3.4, and gpux installs with pip 23.0 or newer"));
}

TEST_F(Installation, FailsInOneLineWithADocumentedCode) {
  add_wheel("0.6.0", "py3-none-win_amd64");
  const fs::path empty = program_.folder().path() / "empty";
  fs::create_directories(empty);
  const std::string from = wheels().string();

  struct Case {
    std::vector<std::string> arguments;
    int code;
    const char* words;
    std::vector<std::string> environment = {};
  };

  const std::vector<Case> cases{
      {{"install", "webgpuu", "--from", from}, 2, "did you mean 'webgpu'"},
      {{"install", "encoder", "--from", from}, 2, "it comes with gpux"},
      {{"install", "coreml", "--from", from}, 5, "runs on macos only"},
      {{"install"}, 2, "give a NAME"},
      {{"install", "webgpu@", "--from", from}, 2, "NAME@VERSION"},
      {{"install", "webgpu@9.9", "--from", from}, 7, "has no onnxruntime-ep-webgpu==9.9; it has 0.5.0, 0.4.0"},
      {{"install", "webgpu@0.6.0", "--from", from}, 7, "has no onnxruntime-ep-webgpu==0.6.0"},
      {{"install", "webgpu", "--from", empty.string()}, 7, "has no wheel of onnxruntime-ep-webgpu for this system"},
      {{"install", "webgpu", "--from", "/no/such/folder"}, 7, "is no folder"},
      {{"install", "webgpu"}, 7, "GPUX_OFFLINE forbids downloads"},
      {{"install", "webgpu", "--from", from}, 7, "python3 is not on PATH", {"PATH=/nowhere"}},
      {{"remove", "webgpu"}, 7, "it is not installed; nothing is installed"},
      {{"remove"}, 2, "give a NAME"},
      {{"check", "webgpu"}, 7, "is not installed"},
      {{"remove", "webgpu", "--dry-run"}, 2, "--dry-run: only 'gpux providers install' takes it"},
      {{"instal", "webgpu"}, 2, "install"},
  };
  for (const Case& one : cases) {
    const Outcome outcome = providers(one.arguments, {.environment = one.environment});
    EXPECT_EQ(outcome.code, one.code) << one.arguments.front() << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.words));
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_THAT(installed(), IsEmpty());
}

// One that answers nothing: the index of pip's configuration.
TEST_F(Installation, SaysThatTheIndexCannotBeReached) {
  const Outcome outcome =
      providers({"install", "webgpu"},
                {.environment = {"GPUX_OFFLINE=0", "PIP_INDEX_URL=http://127.0.0.1:9/simple", "PIP_FIND_LINKS="}});
  EXPECT_EQ(outcome.code, 10) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the package index cannot be reached (connection refused)"));
  EXPECT_THAT(installed(), IsEmpty());
}

TEST_F(Installation, WritesNothingWhereTheHomeCannotBeWritten) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  fs::create_directories(program_.home());
  fs::permissions(program_.home(), fs::perms::owner_read | fs::perms::owner_exec);
  const Outcome outcome = install("webgpu");
  fs::permissions(program_.home(), fs::perms::owner_all);
  EXPECT_EQ(outcome.code, 11) << outcome.err;
}

}  // namespace
}  // namespace gpux::test
