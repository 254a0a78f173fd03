// What custom operators of a worker process can do with a sandbox, and that the server lives on.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/eventually.h"
#include "base/plain_signals.h"
#include "base/sanitizers.h"
#include "cli/serving.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using http::post;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const bool has_plain_signals = (leave_signals_to_programs(), true);

constexpr bool limits_memory = !has_sanitizer;

const std::vector<std::string>& hostile_model() {
  static const std::vector<std::string> words{model("attempt.onnx"), "--custom-ops", GPUX_HOSTILE_OPERATORS,
                                              "--batch-axis", "none"};
  return words;
}

std::vector<std::string> hostile(const std::vector<std::string>& more) {
  std::vector<std::string> words = hostile_model();
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// What the operator answers to one string.
std::string attempt(const Serving& server, const std::string& what) {
  const Json answer = server.json(post("/predict", Json{{"what", Json::array({what})}}.dump()));
  return answer.at("result").at(0).get<std::string>();
}

std::string verdict_of(const Serving& server) {
  return server.ready().at("models").at(0).at("verdict").dump();
}

std::string process_of(const Serving& server) {
  return std::to_string(server.ready().at("pid").get<int>());
}

/// A file of the user's that has nothing to do with the model.
std::string secret_in(const Program& gpux) {
  const std::string file = (gpux.folder().path() / "secret").string();
  std::ofstream(file) << "the secret";
  return file;
}

TEST(Sandbox, RefusesWhatAnOperatorTriesAndTheServerLives) {
  const Program gpux;
  const std::string secret = secret_in(gpux), made = (gpux.folder().path() / "made").string();
  const Serving server(gpux, hostile({"--sandbox", "on", "--memory", "128MB"}));
  EXPECT_THAT(verdict_of(server), HasSubstr("sandboxed: Landlock ABI "));
  EXPECT_THAT(verdict_of(server), HasSubstr("seccomp"));
  for (const std::string& what : {"read:" + secret,
                                  std::string("read:/etc/passwd"),
                                  "read:/proc/" + process_of(server) + "/environ",
                                  "read:/proc/" + process_of(server) + "/cmdline",
                                  "write:" + made,
                                  std::string("write:/tmp/gpux-sandbox-test"),
                                  "connect:" + std::to_string(server.port()),
                                  "spawn:" + made,
                                  "exec:" + made,
                                  std::string("fork"),
                                  std::string("memory-file"),
                                  std::string("allocate-shared:64"),
                                  std::string("trace"),
                                  std::string("signal"),
                                  std::string("signal-by-file"),
                                  std::string("limits"),
                                  "mode:" + secret,
                                  "remove:" + secret,
                                  "mode:" + model("attempt.onnx"),
                                  std::string("fill-memory-files:64"),
                                  std::string("group"),
                                  std::string("priority:group"),
                                  std::string("priority:user"),
                                  "watch:" + gpux.folder().path().string(),
                                  std::string("cut-errors")}) {
    EXPECT_THAT(attempt(server, what), StartsWith("refused: ")) << what;
  }
  EXPECT_FALSE(fs::exists(made));
  EXPECT_TRUE(fs::exists(secret));
  if (limits_memory) {
    EXPECT_THAT(attempt(server, "allocate:4096"), HasSubstr("refused: Cannot allocate memory"));
  }
  EXPECT_EQ(attempt(server, "echo:still here"), "still here");
  EXPECT_EQ(server.json(http::get("/metrics", "Accept: application/json\r\n"))
                .at("models")
                .at(0)
                .at("workers")
                .at(0)
                .at("restarts"),
            0);
}

// What the attempts do where nothing holds them: else the test above could not fail.
TEST(Sandbox, AttemptsSucceedWithoutIt) {
  const Program gpux;
  const std::string secret = secret_in(gpux), made = (gpux.folder().path() / "made").string();
  const Serving server(gpux, hostile({"--isolation", "process"}));
  EXPECT_THAT(verdict_of(server), Not(HasSubstr("sandboxed")));
  EXPECT_EQ(attempt(server, "read:" + secret), "done: the secret");
  for (const std::string& what :
       {"write:" + made, "connect:" + std::to_string(server.port()), std::string("fork"), std::string("memory-file"),
        std::string("allocate:64"), std::string("allocate-shared:64"), std::string("signal"),
        std::string("signal-by-file"), "mode:" + secret, "spawn:" + made, "remove:" + secret,
        "watch:" + gpux.folder().path().string(), std::string("group")}) {
    EXPECT_EQ(attempt(server, what), "done") << what;
  }
  EXPECT_TRUE(fs::exists(made));
}

TEST(Sandbox, KeepsSecretsOfTheEnvironment) {
  const Program gpux;
  const std::vector<std::pair<std::string, std::string>> variables{{"AWS_SECRET_ACCESS_KEY", "secret"},
                                                                   {"OPENAI_API_KEY", "secret"},
                                                                   {"https_proxy", "http://user:secret@localhost:1"},
                                                                   {"OMP_NUM_THREADS", "2"}};
  const Serving server(gpux, hostile({"--sandbox", "on"}), variables);
  for (const auto& [name, value] : variables) {
    const bool is_kept = name == "OMP_NUM_THREADS";
    EXPECT_EQ(attempt(server, "variable:" + name), is_kept ? "done: " + value : "refused: it is not set") << name;
  }
}

// They come by a pipe: the file that the server writes to is not the worker's, and no terminal obeys it.
TEST(Sandbox, PassesErrorsOn) {
  const Program gpux;
  const Serving server(gpux, hostile({"--sandbox", "on"}));
  EXPECT_EQ(attempt(server, "error:a line\x1b[2J of the worker\n"), "done");
  EXPECT_TRUE(eventually([&] { return server.log().find("a line?[2J of the worker\n") != std::string::npos; }));
  EXPECT_THAT(attempt(server, "cut-errors"), StartsWith("refused: "));
  EXPECT_THAT(server.log(), HasSubstr("a line?[2J of the worker\n"));
}

#if defined(__x86_64__)
// Whatever it does, it ends with the server, even one that is killed.
TEST(Sandbox, LeavesNoOrphans) {
  const Program gpux;
  int worker = 0;
  {
    const Serving server(gpux, hostile({"--sandbox", "on"}), {{"GPUX_HOSTILE_AT_LOAD", "orphan"}});
    worker = server.json(http::get("/metrics", "Accept: application/json\r\n"))
                 .at("models")
                 .at(0)
                 .at("workers")
                 .at(0)
                 .at("process_id")
                 .get<int>();
    EXPECT_THAT(attempt(server, "at-load"), StartsWith("refused: "));
    EXPECT_TRUE(fs::exists("/proc/" + std::to_string(worker)));
  }
  // Nobody may have waited for it: then a zombie is left.
  const auto has_ended = [&] {
    std::ifstream file("/proc/" + std::to_string(worker) + "/stat");
    std::string line;
    return !std::getline(file, line) || line.find(") Z ") != std::string::npos;
  };
  EXPECT_TRUE(eventually(has_ended));
  ::kill(worker, SIGKILL);
}
#endif

TEST(Sandbox, ReplacesAWorkerThatItsOperatorEnds) {
  const Program gpux;
  const Serving server(gpux, hostile({"--sandbox", "on"}));
  const Answered answer = server.ask(post("/predict", R"({"what": ["crash"]})"));
  EXPECT_EQ(answer.status, 500) << answer.body;
  EXPECT_THAT(answer.body, HasSubstr("was ended by signal 6 (SIGABRT)"));
  EXPECT_EQ(attempt(server, "echo:again"), "again");
  EXPECT_THAT(attempt(server, "read:/etc/passwd"), StartsWith("refused: "));
}

TEST(Sandbox, StrictIsPossibleHere) {
  if (!limits_memory) GTEST_SKIP() << "AddressSanitizer allows no limit of memory";
  const Program gpux;
  const Serving server(gpux, hostile({"--sandbox", "strict"}));
  EXPECT_THAT(verdict_of(server), HasSubstr("sandboxed: Landlock ABI "));
  EXPECT_THAT(verdict_of(server), Not(HasSubstr("missing")));
  EXPECT_EQ(attempt(server, "echo:a"), "a");
}

TEST(Sandbox, StrictFailsWhereTheKernelLacksSomething) {
  const Program gpux;
  const auto start = [&](const char* missing) {
    return gpux.run({"serve", model("add.onnx"), "--port", "0", "--no-grpc", "--sandbox", "strict"},
                    {.shell = std::string("exec " GPUX_OLDER_KERNEL " ") + missing + R"( "$0" "$@")"});
  };
  const Outcome landlock = start("landlock");
  EXPECT_EQ(landlock.code, 2) << landlock.err;
  EXPECT_THAT(landlock.err, HasSubstr("sandbox 'strict' is not possible here: missing: "));
  EXPECT_THAT(landlock.err, HasSubstr("Landlock, so that all files of this user can be read and written: Function not "
                                      "implemented"));
  EXPECT_THAT(landlock.err, HasSubstr("accepted: on, off"));
  const Outcome seccomp = start("seccomp");
  EXPECT_EQ(seccomp.code, 2) << seccomp.err;
  EXPECT_THAT(seccomp.err, HasSubstr("seccomp, so that programs can be started: "));
}

TEST(Sandbox, RefusesWhatItCannotKeep) {
  const Program gpux;
  const auto serve = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"serve", model("add.onnx"), "--port", "0", "--no-grpc"});
    return gpux.run(more);
  };
  const Outcome thread = serve({"--sandbox", "on", "--isolation", "thread"});
  EXPECT_EQ(thread.code, 2);
  EXPECT_THAT(thread.err,
              HasSubstr("a sandbox requires isolation 'process', and it is 'thread'; accepted: sandbox off"));
  const Outcome fastest = serve({"--sandbox", "on", "--provider", "fastest"});
  EXPECT_EQ(fastest.code, 2);
  EXPECT_THAT(fastest.err, HasSubstr("provider 'fastest' starts programs that time each provider"));
  const Outcome unknown = serve({"--sandbox", "maybe"});
  EXPECT_EQ(unknown.code, 2);
}

// A package of another machine, as an archive.
void store_as_pulled(const Program& gpux, const std::string& onnx, const std::string& name) {
  const std::string archive = (gpux.folder().path() / "package.tar").string();
  ASSERT_EQ(gpux.run({"build", onnx, "-t", name}).code, 0);
  ASSERT_EQ(gpux.run({"save", name, "-o", archive}).code, 0);
  ASSERT_EQ(gpux.run({"rm", name}).code, 0);
  ASSERT_EQ(gpux.run({"load", "-i", archive}).code, 0);
}

TEST(Sandbox, IsOnForPackagesFromElsewhere) {
  const Program gpux;
  store_as_pulled(gpux, model("add.onnx"), "stranger");
  ASSERT_EQ(gpux.run({"tag", "stranger", "renamed"}).code, 0);
  ASSERT_EQ(gpux.run({"build", model("multiply.onnx"), "-t", "own"}).code, 0);
  const Serving server(gpux, {"stranger=stranger", "renamed=renamed", "own=own"});
  std::map<std::string, std::string> verdicts;
  for (const Json& one : server.ready().at("models")) {
    verdicts[one.at("name").get<std::string>()] = one.at("verdict").dump();
  }
  for (const char* name : {"stranger", "renamed"}) {
    EXPECT_THAT(verdicts[name], HasSubstr("sandboxed: Landlock ABI ")) << name;
    EXPECT_THAT(verdicts[name], HasSubstr("the model runs in a worker process")) << name;
  }
  EXPECT_THAT(verdicts["own"], Not(HasSubstr("sandboxed")));
  EXPECT_EQ(server.json(post("/models/stranger/predict", R"({"x": [[1, 2, 3]]})")),
            Json::parse(R"({"y": [[2, 4, 6]]})"));
}

TEST(Sandbox, IsOnForOneRunToo) {
  const Program gpux;
  store_as_pulled(gpux, model("add.onnx"), "stranger");
  const std::string report = (gpux.folder().path() / "report.json").string();
  const auto verdict_with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"run", "stranger", "--input", "[[1, 2, 3]]", "--report", report};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = gpux.run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return content_of(report);
  };
  EXPECT_THAT(verdict_with({}), HasSubstr("sandboxed: Landlock ABI "));
  EXPECT_THAT(verdict_with({"--sandbox", "off"}), HasSubstr("not sandboxed: the model comes from "));
  EXPECT_THAT(verdict_with({"--isolation", "thread"}), HasSubstr("and runs in this process"));
  const Outcome fastest = gpux.run({"run", "stranger", "--input", "[[1, 2, 3]]", "--provider", "fastest"});
  EXPECT_EQ(fastest.code, 2);
  EXPECT_THAT(fastest.err, HasSubstr("accepted: the name of a provider, or sandbox off"));
}

// Its gpux.yml is the stranger's.
TEST(Sandbox, IsNotGivenUpByThePackage) {
  const Program gpux;
  const fs::path project = gpux.folder().path() / "project";
  fs::create_directory(project);
  fs::copy_file(model("add.onnx"), project / "add.onnx");
  const std::string report = (gpux.folder().path() / "report.json").string();
  const auto run_with = [&](const std::string& runtime) {
    std::ofstream(project / "gpux.yml") << "name: stranger\nmodel: {source: add.onnx}\nruntime: {" << runtime << "}\n";
    store_as_pulled(gpux, project.string(), "stranger");
    return gpux.run({"run", "stranger", "--input", "[[1, 2, 3]]", "--report", report});
  };
  for (const char* key : {"isolation: thread", "enable_profiling: true", "gpu: {memory: 500GB}"}) {
    const Outcome outcome = run_with(key);
    EXPECT_EQ(outcome.code, 0) << key << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("is not to decide: runtime.")) << key;
    EXPECT_THAT(content_of(report), HasSubstr("\"sandboxed: Landlock ABI ")) << key;
  }
  EXPECT_FALSE(fs::exists(gpux.home() / "profiles"));
}

TEST(Sandbox, IsReportedWhereItIsOff) {
  const Program gpux;
  store_as_pulled(gpux, model("add.onnx"), "stranger");
  const std::string archive = (gpux.folder().path() / "package.tar").string();
  const Serving off(gpux, {"stranger", "--sandbox", "off"});
  EXPECT_THAT(verdict_of(off), HasSubstr("not sandboxed: the model comes from " + archive));
  const Serving thread(gpux, {"stranger", "--isolation", "thread"});
  EXPECT_THAT(verdict_of(thread), HasSubstr("and runs in this process"));
}

TEST(CustomOperators, RunWithAPathOnTheCommandLine) {
  const Program gpux;
  const Outcome outcome = gpux.run({"run", model("attempt.onnx"), "--custom-ops", GPUX_HOSTILE_OPERATORS, "--input",
                                    R"({"what": ["echo:a", "echo:b"]})"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(R"("a")"));
}

/// The library of the Python package onnxruntime-extensions; empty: it is not here.
fs::path extensions_library() {
  if (const char* given = std::getenv("ONNXRUNTIME_EXTENSIONS")) return given;
  std::error_code error;
  const fs::path package =
      GPUX_SOURCE_DIR "/.deps/python-integrations/lib/python3.11/site-packages/onnxruntime_extensions";
  for (fs::directory_iterator entry(package, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".so") return entry->path();
  }
  return {};
}

TEST(CustomOperators, OfOnnxruntimeExtensionsRunInASandbox) {
  const fs::path library = extensions_library();
  if (library.empty()) GTEST_SKIP() << "no onnxruntime-extensions: scripts/setup --integrations brings it";
  if (!limits_memory) GTEST_SKIP() << "AddressSanitizer's library has to be the first, and here it is Python's";
  const Program gpux;
  // It is a Python module as well, and takes Python's functions from the process.
  const Serving server(gpux, {model("string_upper.onnx"), "--custom-ops", library.string(), "--sandbox", "on"},
                       {{"LD_PRELOAD", "libpython3.11.so.1.0"}});
  EXPECT_THAT(verdict_of(server), HasSubstr("sandboxed: Landlock ABI "));
  EXPECT_EQ(server.json(post("/predict", R"({"x": ["gpux", "Text"]})")), Json::parse(R"({"y": ["GPUX", "TEXT"]})"));
}

TEST(CustomOperators, AreRefusedByName) {
  const Program gpux;
  const Outcome missing = gpux.run({"run", model("add.onnx"), "--custom-ops", "/nowhere.so", "--input", "[[1, 2, 3]]"});
  EXPECT_EQ(missing.code, 7);
  EXPECT_THAT(missing.err, HasSubstr("--custom-ops: there is no library of custom operators '/nowhere.so'"));
  const Outcome wrong =
      gpux.run({"run", model("add.onnx"), "--custom-ops", model("add.onnx"), "--input", "[[1, 2, 3]]"});
  EXPECT_EQ(wrong.code, 2) << wrong.err;
  EXPECT_THAT(wrong.err, HasSubstr("cannot be used"));
}

TEST(CustomOperators, OfAProjectAreNotPackaged) {
  const Program gpux;
  const fs::path project = gpux.folder().path() / "project";
  fs::create_directory(project);
  fs::copy_file(model("attempt.onnx"), project / "attempt.onnx");
  fs::copy_file(GPUX_HOSTILE_OPERATORS, project / "operators.so");
  std::ofstream(project / "gpux.yml") << "name: hostile\nmodel: {source: attempt.onnx}\n"
                                         "runtime: {custom_ops: [operators.so]}\n";
  const Outcome run = gpux.run({"run", project.string(), "--input", R"({"what": ["echo:a"]})"});
  EXPECT_EQ(run.code, 0) << run.err;
  const Outcome build = gpux.run({"build", project.string()});
  EXPECT_EQ(build.code, 3);
  EXPECT_THAT(build.err, HasSubstr("a package cannot name a library of custom operators, which is code; name it with "
                                   "--custom-ops PATH"));
}

}  // namespace
}  // namespace gpux::test
