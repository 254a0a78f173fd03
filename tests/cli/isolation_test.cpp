// gpux serve --isolation process: what clients, metrics and readiness show when a worker process crashes, is killed or
// hangs, and that answers are those of --isolation thread.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/plain_signals.h"
#include "cli/failing_provider.h"
#include "cli/serving.h"
#include "embedding/encoder_folder.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using http::get;
using http::post;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using testing::HasSubstr;

const bool has_plain_signals = (leave_signals_to_programs(), true);

const std::string add_inputs = R"({"x": [[1, 2, 3]]})";
const std::string add_answer = R"({"y": [[2, 4, 6]]})";
const std::string multiply_inputs = R"({"a": [1, 2, 3], "b": [4, 5, 6]})";
const std::string product = R"({"y": [4, 10, 18]})";

/// What JSON metrics say of the only worker.
Json worker_of(const Serving& server, std::size_t model_index = 0) {
  const Json metrics = server.json(get("/metrics", "Accept: application/json\r\n"));
  return metrics.at("models").at(model_index).at("workers").at(0);
}

bool is_ready(const Serving& server) {
  return worker_of(server).at("state") == "ready";
}

pid_t process_of(const Serving& server) {
  return worker_of(server).at("process_id").get<pid_t>();
}

std::vector<std::string> in_workers(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--isolation", "process"});
  return arguments;
}

TEST(Isolation, AnswersAsAThreadDoes) {
  const Program gpux;
  (void)write_encoder_folder(gpux.folder(), R"({"pooling_mode_mean_tokens": true})", false);
  const std::vector<std::string> models{
      "add=" + model("add.onnx"), "texts=" + (gpux.folder().path() / "encoder").string(),
      "strings=" + model("string_concat.onnx"), "list=" + model("sequence_output.onnx")};
  const Serving threads(gpux, models);
  const Serving processes(gpux, in_workers(models));
  const auto expect_equal = [&](const std::string& request) {
    const Answered expected = threads.ask(request);
    const Answered answer = processes.ask(request);
    EXPECT_EQ(expected.status, 200) << expected.body;
    EXPECT_EQ(answer.status, expected.status) << answer.body;
    EXPECT_EQ(answer.body, expected.body);
  };
  expect_equal(post("/models/add/predict", add_inputs));
  expect_equal(post("/models/texts/embed", R"({"inputs": ["one text", "another, which is longer than the first"]})"));
  for (const char* name : {"strings", "list"}) {
    Json inputs;
    const Json described = threads.json(get(std::string("/v2/models/") + name));
    for (const Json& input : described.at("inputs")) {
      const bool is_text = input.at("datatype") == "BYTES";
      inputs[input.at("name").get<std::string>()] = is_text ? Json::array({"a", "b"}) : Json::array({1, 2});
    }
    const std::string request = post(std::string("/models/") + name + "/predict", inputs.dump());
    EXPECT_EQ(processes.ask(request).status, threads.ask(request).status);
    EXPECT_EQ(processes.ask(request).body, threads.ask(request).body);
  }
  const Json verdict = processes.ready().at("models").at(0).at("verdict");
  EXPECT_THAT(verdict.dump(), HasSubstr("the model runs in a worker process"));
  EXPECT_EQ(processes.ask(get("/health/ready")).status, 200);
  EXPECT_THAT(processes.ask(get("/metrics")).body,
              HasSubstr("gpux_worker_restarts_total{model=\"add\",version=\"1.0.0\",worker=\"0\"} 0\n"));
  EXPECT_THAT(threads.ask(get("/metrics")).body, testing::Not(HasSubstr("gpux_worker")));
}

TEST(Isolation, GivesTheVectorsOfAThread) {
  const fs::path folder = GPUX_SOURCE_DIR "/.deps/all-MiniLM-L6-v2";
  if (!fs::exists(folder)) GTEST_SKIP() << "no " << folder << ": scripts/setup --test brings it";
  const Program gpux;
  ASSERT_EQ(gpux.run({"import", folder.string(), "-t", "minilm"}).code, 0);
  const Serving threads(gpux, {"minilm"});
  const Serving processes(gpux, in_workers({"minilm"}));
  std::vector<std::string> texts;
  for (int i = 1; i <= 24; ++i) {
    std::string text = "text " + std::to_string(i);
    for (int more = 0; more < i % 9; ++more) text += " with some more words in it";
    texts.push_back(text);
  }
  const std::string request = post("/embed", Json{{"inputs", texts}}.dump());
  const Answered expected = threads.ask(request);
  EXPECT_EQ(expected.status, 200) << expected.body;
  EXPECT_EQ(processes.ask(request).body, expected.body);
}

// Of a file whose size the kernel gives as 0.
std::string kernel_text(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The numbers of the sockets that somebody listens on.
std::set<std::string> listening_sockets() {
  std::set<std::string> numbers;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(kernel_text(table));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::vector<std::string> fields;
      for (std::string word; words >> word;) fields.push_back(word);
      if (fields.size() > 9 && fields[3] == "0A") numbers.insert("socket:[" + fields[9] + "]");
    }
  }
  return numbers;
}

TEST(Isolation, GivesTheWorkerNothingElseAndEndsIt) {
  const Program gpux;
  Serving server(gpux, in_workers({"add=" + model("add.onnx")}), {{"HF_TOKEN", "secret"}});
  const fs::path process = "/proc/" + std::to_string(process_of(server));
  EXPECT_EQ(kernel_text(process / "comm"), "gpux-worker\n");
  EXPECT_THAT(kernel_text(process / "environ"), testing::Not(HasSubstr("HF_TOKEN")));
  EXPECT_EQ(server.json(post("/predict", add_inputs)), Json::parse(add_answer));
  const std::set<std::string> listening = listening_sockets();
  EXPECT_FALSE(listening.empty());
  std::map<std::string, int> kinds;
  for (const auto& entry : fs::directory_iterator(process / "fd")) {
    std::error_code error;
    const std::string target = fs::read_symlink(entry.path(), error);
    EXPECT_FALSE(listening.contains(target)) << target;
    ++kinds[target.substr(0, target.find(':'))];
  }
  // The worker's own one, and a channel for each run at the same time.
  EXPECT_LE(kinds["socket"], 3);
  server.signal(SIGKILL);
  (void)server.wait();
  EXPECT_TRUE(eventually([&] {
    std::error_code error;
    return !fs::exists(process / "exe", error) || kernel_text(process / "stat").find(") Z ") != std::string::npos;
  })) << "the worker goes on without its server";
}

TEST(Isolation, ReportsALoadThatFailsAsAThreadDoes) {
  const Program gpux;
  for (const char* file : {"unknown_operator.onnx", "opset_too_new.onnx"}) {
    const std::vector<std::string> serve{"serve", model(file), "--port", "0", "--no-grpc"};
    const Outcome thread = gpux.run(serve);
    const Outcome process = gpux.run(in_workers(serve));
    EXPECT_NE(thread.code, 0);
    EXPECT_EQ(process.code, thread.code);
    EXPECT_EQ(process.err, thread.err);
  }
}

TEST(Isolation, RefusesWhatNeedsIt) {
  const Program gpux;
  const Outcome outcome = gpux.run({"serve", model("add.onnx"), "--port", "0", "--no-grpc", "--stop-grace", "1s"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--stop-grace is about worker processes: add --isolation process"));
  const Outcome unreadable =
      gpux.run({"serve", model("add.onnx"), "--port", "0", "--no-grpc", "--max-restart-delay", "soon"});
  EXPECT_EQ(unreadable.code, 2);
  EXPECT_THAT(unreadable.err, HasSubstr("--max-restart-delay is 'soon'"));
  const Outcome profile =
      gpux.run(in_workers({"serve", model("add.onnx"), "--port", "0", "--no-grpc", "--profile", "profile.json"}));
  EXPECT_EQ(profile.code, 2);
  EXPECT_THAT(profile.err, HasSubstr("isolation 'process' does not support a profile of ONNX Runtime"));
}

// It has an effect on some of the models, and the others are named.
TEST(Isolation, TellsWhichModelsAFlagIsNotAbout) {
  const Program gpux;
  const auto list = gpux.folder().write("models.yml", "models:\n  here: {model: " + model("add.onnx") +
                                                          "}\n  there: {model: " + model("multiply.onnx") +
                                                          ", isolation: process}\n");
  const Serving server(gpux, {"--models", list.string(), "--stop-grace", "1s"});
  EXPECT_EQ(server.ready().at("warnings"),
            Json::array({"--stop-grace is about worker processes: no effect on here, which runs in this process"}));
  EXPECT_EQ(server.json(post("/models/there/predict", multiply_inputs)), Json::parse(product));
}

// The request that crashes the provider gets the reason, and all others their answers.
TEST(Isolation, CostsACrashingRequestAlone) {
  const Program gpux;
  // Each session's third computation: one request warms up, one succeeds, one crashes.
  const Serving server(
      gpux,
      in_workers(with_provider({"mul=" + model("multiply.onnx"), "add=" + model("add.onnx"), "--batch-axis", "none"})),
      {{"GPUX_EXAMPLE_FAIL", "crash:3"}});
  EXPECT_EQ(server.json(post("/models/mul/predict", multiply_inputs)), Json::parse(product));
  const Answered crashed = server.ask(post("/models/mul/predict", multiply_inputs));
  EXPECT_EQ(crashed.status, 500) << crashed.body;
  EXPECT_THAT(crashed.body, HasSubstr("the worker of 'mul' was ended by signal 11 (SIGSEGV); the runs that it had "
                                      "in progress are lost"));
  EXPECT_EQ(server.json(post("/models/add/predict", add_inputs)), Json::parse(add_answer));
  EXPECT_EQ(server.json(post("/models/mul/predict", multiply_inputs)), Json::parse(product));
  EXPECT_THAT(server.log(), HasSubstr("the worker of 'mul' was ended by signal 11 (SIGSEGV); it is started again"));
  const std::string metrics = server.ask(get("/metrics")).body;
  EXPECT_THAT(metrics, HasSubstr("gpux_worker_restarts_total{model=\"mul\",version=\"1.0.0\",worker=\"0\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("gpux_worker_restarts_total{model=\"add\",version=\"1.0.0\",worker=\"0\"} 0\n"));
  EXPECT_THAT(metrics,
              HasSubstr("nv_inference_request_failure{model=\"mul\",version=\"1.0.0\",reason=\"BACKEND\"} 1\n"));
}

// While a restart is delayed, requests get 503 at once, and readiness says so.
TEST(Isolation, IsNotReadyWhileARestartIsDelayed) {
  const Program gpux;
  const Serving server(gpux, in_workers({"add=" + model("add.onnx")}));
  for (std::uint64_t ends = 1; ends <= 5; ++ends) {
    ASSERT_TRUE(eventually([&] { return is_ready(server); }));
    ::kill(process_of(server), SIGKILL);
    ASSERT_TRUE(eventually([&] { return worker_of(server).at("restarts").get<std::uint64_t>() == ends; }));
  }
  const Answered refused = server.ask(post("/predict", add_inputs));
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_THAT(refused.body, HasSubstr("was ended by signal 9 (SIGKILL); it is started again in "));
  EXPECT_EQ(server.ask(get("/health/ready")).status, 503);
  EXPECT_EQ(server.ask(get("/health/live")).status, 200);
  const Answered health = server.ask(get("/health"));
  EXPECT_EQ(health.status, 503);
  EXPECT_THAT(health.body, HasSubstr("its worker process is being started again"));
  EXPECT_THAT(server.ask(get("/metrics")).body,
              HasSubstr("gpux_worker_ready{model=\"add\",version=\"1.0.0\",worker=\"0\"} 0\n"));
  EXPECT_TRUE(eventually([&] { return is_ready(server); }));
  EXPECT_EQ(server.json(post("/predict", add_inputs)), Json::parse(add_answer));
  EXPECT_EQ(server.ask(get("/health/ready")).status, 200);
}

TEST(Isolation, ReplacesAWorkerThatHangs) {
  const Program gpux;
  const auto release = gpux.folder().write("release", "");
  Serving server(gpux,
                 in_workers(with_provider({"mul=" + model("multiply.onnx"), "add=" + model("add.onnx"), "--timeout",
                                           "500ms", "--stop-grace", "300ms"})),
                 {{"GPUX_EXAMPLE_FAIL", "hang"}, {"GPUX_EXAMPLE_RELEASE", release.string()}});
  EXPECT_EQ(server.json(post("/models/mul/predict", multiply_inputs)), Json::parse(product));
  fs::remove(release);
  const Answered late = server.ask(post("/models/mul/predict", multiply_inputs));
  EXPECT_EQ(late.status, 504) << late.body;
  EXPECT_EQ(server.json(post("/models/add/predict", add_inputs)), Json::parse(add_answer));
  // Nothing but the end of its worker ends the run.
  EXPECT_TRUE(eventually([&] { return worker_of(server, 1).at("restarts") == 1; }));
  EXPECT_EQ(worker_of(server, 1).at("last_end"),
            "the worker of 'mul' was killed: a run did not end within 300 ms after the request to stop");
  gpux.folder().write("release", "");
  EXPECT_TRUE(eventually([&] { return is_ready(server); }));
  EXPECT_EQ(server.json(post("/models/mul/predict", multiply_inputs)), Json::parse(product));
  EXPECT_EQ(server.ask(get("/health/ready")).status, 200);
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
}

// 100 workers are ended under load, by turns as an operator and as a bug ends them.
TEST(Isolation, LosesOnlyRequestsInFlight) {
  constexpr int kills = 100, clients = 4;
  const Program gpux;
  const Serving server(gpux, in_workers({"add=" + model("add.onnx"), "--max-restart-delay", "0", "--timeout", "30s",
                                         "--batch-axis", "none"}));
  std::atomic<bool> is_over = false;
  std::mutex mutex;
  std::map<int, int> answers;  // by status
  std::set<std::string> messages;
  milliseconds longest{0};
  std::vector<std::jthread> threads;
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&] {
      RawClient connection(server.port());
      while (!is_over) {
        const Clock::time_point begin = Clock::now();
        const Answered answer = connection.ask(post("/predict", add_inputs));
        const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
        const std::lock_guard lock(mutex);
        ++answers[answer.status];
        longest = std::max(longest, took);
        if (answer.status == 200) {
          EXPECT_EQ(Json::parse(answer.body), Json::parse(add_answer));
        } else {
          messages.insert(answer.body);
        }
        if (answer.status == 0) return;
      }
    });
  }
  std::vector<double> recovery_ms;
  for (int i = 0; i < kills; ++i) {
    ASSERT_TRUE(eventually([&] { return is_ready(server); })) << i;
    const Clock::time_point begin = Clock::now();
    ::kill(process_of(server), i % 2 == 0 ? SIGKILL : SIGSEGV);
    ASSERT_TRUE(eventually([&] { return worker_of(server).at("restarts").get<int>() == i + 1; })) << i;
    EXPECT_EQ(server.ask(post("/predict", add_inputs)).status, 200) << i;
    recovery_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  is_over = true;
  threads.clear();
  const Json worker = worker_of(server);
  std::ranges::sort(recovery_ms);
  std::printf(
      "%d workers ended: %d answers with 200, %d with 500, %d runs repeated, longest %d ms; recovery median %.0f ms, "
      "max %.0f ms\n",
      kills, answers[200], answers[500], worker.at("repeated_runs").get<int>(), static_cast<int>(longest.count()),
      recovery_ms[recovery_ms.size() / 2], recovery_ms.back());
  // One run at a time, of one request: those that a worker had taken, and no other.
  EXPECT_LE(answers[500], kills);
  EXPECT_EQ(worker.at("lost_runs"), answers[500]);
  EXPECT_GT(answers[200], kills);
  EXPECT_EQ(answers[200] + answers[500], [&] {
    int all = 0;
    for (const auto& [status, count] : answers) all += count;
    return all;
  }());
  for (const std::string& message : messages) {
    EXPECT_THAT(message, HasSubstr("the worker of 'add' was ended by signal ")) << message;
  }
}

// --- commands that load a model for one call -----------------------------------------------------------------------

TEST(IsolatedRun, AnswersAsAThreadDoes) {
  const Program gpux;
  const std::vector<std::string> run{"run", model("add.onnx"), "--input", add_inputs};
  const Outcome thread = gpux.run(run);
  const Outcome process = gpux.run(in_workers(run));
  EXPECT_EQ(process.code, 0) << process.err;
  EXPECT_EQ(process.out, thread.out);
  EXPECT_THAT(process.err, HasSubstr("; the model runs in a worker process (--isolation)"));
  EXPECT_THAT(thread.err, testing::Not(HasSubstr("worker")));
  const Outcome list =
      gpux.run(in_workers({"run", model("add.onnx"), "--input", "[" + add_inputs + "," + add_inputs + "]"}));
  EXPECT_EQ(list.json(), Json::array({Json::parse(add_answer), Json::parse(add_answer)})) << list.err;
}

TEST(IsolatedRun, EmbedsAsAThreadDoes) {
  const Program gpux;
  (void)write_encoder_folder(gpux.folder(), R"({"pooling_mode_mean_tokens": true})", false);
  const std::vector<std::string> embed{"embed", (gpux.folder().path() / "encoder").string(), "one text",
                                       "another, which is longer than the first"};
  const Outcome thread = gpux.run(embed);
  const Outcome process = gpux.run(in_workers(embed));
  EXPECT_EQ(thread.code, 0) << thread.err;
  EXPECT_EQ(process.code, 0) << process.err;
  EXPECT_EQ(process.out, thread.out);
}

TEST(IsolatedRun, FailsWithItsWorkerInOneLine) {
  const Program gpux;
  const Outcome outcome = gpux.run(with_provider({"run", model("multiply.onnx"), "--input", multiply_inputs}),
                                   {.environment = {"GPUX_EXAMPLE_FAIL=crash:1"}, .limit = std::chrono::seconds(30)});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "gpux: the worker of 'multiply' was ended by signal 11 (SIGSEGV); the runs that it had in progress are "
            "lost\n");
}

// By default, a plugin library that is given by its path runs in a worker; whoever wants it otherwise is told.
TEST(IsolatedRun, IsTheDefaultOfALibraryGivenByItsPath) {
  const Program gpux;
  const std::vector<std::string> run = with_provider({"run", model("multiply.onnx"), "--input", multiply_inputs});
  const Outcome by_default = gpux.run(run);
  EXPECT_EQ(by_default.json(), Json::parse(product)) << by_default.err;
  EXPECT_THAT(by_default.err, HasSubstr("ran on example"));
  EXPECT_THAT(by_default.err,
              HasSubstr("the model runs in a worker process: the library of provider 'example' is given by its path"));
  std::vector<std::string> in_thread = run;
  in_thread.insert(in_thread.end(), {"--isolation", "thread"});
  const Outcome thread = gpux.run(in_thread);
  EXPECT_EQ(thread.json(), Json::parse(product)) << thread.err;
  EXPECT_THAT(thread.err, HasSubstr("the model runs in this process (--isolation), and a crash would end it: the "
                                    "library of provider 'example' is given by its path"));
  std::vector<std::string> benchmark = with_provider({"run", model("multiply.onnx"), "--benchmark", "--runs", "2"});
  EXPECT_THAT(gpux.run(benchmark).err, HasSubstr("the model runs in this process, as it is measured"));
}

TEST(IsolatedRun, IsSetInGpuxYml) {
  const Program gpux;
  fs::create_directory(gpux.folder().path() / "add");
  fs::copy_file(model("add.onnx"), gpux.folder().path() / "add/add.onnx");
  gpux.folder().write("add/gpux.yml",
                      "name: add\nversion: 1.0.0\nmodel: {source: add.onnx}\nruntime: {isolation: process}\n");
  const std::string folder = (gpux.folder().path() / "add").string();
  const Outcome process = gpux.run({"run", folder, "--input", add_inputs});
  EXPECT_EQ(process.json(), Json::parse(add_answer)) << process.err;
  EXPECT_THAT(process.err, HasSubstr("gpux.yml:4:11)"));
  EXPECT_THAT(process.err, HasSubstr("the model runs in a worker process ("));
  const Outcome thread = gpux.run({"run", folder, "--input", add_inputs, "--isolation", "thread"});
  EXPECT_THAT(thread.err, testing::Not(HasSubstr("worker process")));
}

TEST(Isolation, IsSetForEachModelOfAList) {
  const Program gpux;
  const fs::path list =
      gpux.folder().write("models.yml", "models:\n  one: {model: " + model("add.onnx") +
                                            ", isolation: process}\n  two: " + model("add.onnx") + "\n");
  const Serving server(gpux, {"--models", list.string()});
  const std::string metrics = server.ask(get("/metrics")).body;
  EXPECT_THAT(metrics, HasSubstr("gpux_worker_ready{model=\"one\",version=\"1.0.0\",worker=\"0\"} 1\n"));
  EXPECT_THAT(metrics, testing::Not(HasSubstr("gpux_worker_ready{model=\"two\"")));
  EXPECT_GT(worker_of(server).at("resident_bytes").get<std::uint64_t>(), 1U << 20);
}

// Two workers do not fit, though their files would.
TEST(Isolation, CountsTheMemoryOfWorkers) {
  const Program gpux;
  const Serving server(
      gpux, in_workers({"one=" + model("add.onnx"), "two=" + model("add.onnx"), "--memory-budget", "16MiB"}));
  const Json index = server.json(post("/v2/repository/index", ""));
  ASSERT_EQ(index.size(), 2U) << index;
  EXPECT_THAT(index.dump(), HasSubstr("unloaded to make room"));
}

// --- devices that are lost -----------------------------------------------------------------------------------------

// The error stays in its process: only another one can use the device again.
TEST(LostDevice, IsCuredByAnotherWorker) {
  const Program gpux;
  // Each session's third computation: one request warms up, one succeeds, one loses the device.
  const Serving server(gpux, in_workers(with_provider({"mul=" + model("multiply.onnx"), "--batch-axis", "none"})),
                       {{"GPUX_EXAMPLE_FAIL", "device-lost:3"}});
  EXPECT_EQ(server.json(post("/predict", multiply_inputs)), Json::parse(product));
  const Answered failed = server.ask(post("/predict", multiply_inputs));
  EXPECT_EQ(failed.status, 503) << failed.body;
  EXPECT_THAT(failed.body, HasSubstr("the device is lost"));
  // The next request is for the new worker.
  EXPECT_EQ(server.json(post("/predict", multiply_inputs)), Json::parse(product));
  EXPECT_EQ(worker_of(server).at("restarts"), 1);
  EXPECT_THAT(worker_of(server).at("last_end").get<std::string>(),
              HasSubstr("the worker of 'mul' was killed: it has lost its device: "));
  EXPECT_EQ(server.ask(get("/health/ready")).status, 200);
}

TEST(LostDevice, IsReportedByReadinessInAThread) {
  const Program gpux;
  const Serving server(
      gpux, with_provider({"mul=" + model("multiply.onnx"), "--batch-axis", "none", "--isolation", "thread"}),
      {{"GPUX_EXAMPLE_FAIL", "device-lost:3"}});
  EXPECT_EQ(server.json(post("/predict", multiply_inputs)), Json::parse(product));
  EXPECT_EQ(server.ask(get("/health/ready")).status, 200);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(server.ask(post("/predict", multiply_inputs)).status, 503);
    EXPECT_EQ(server.ask(get("/health/ready")).status, 503);
  }
  EXPECT_THAT(server.ask(get("/health")).body,
              HasSubstr("its device can no longer be used by this process: restart the server"));
  EXPECT_EQ(server.ask(get("/health/live")).status, 200);
}

// --- the first load of a library -----------------------------------------------------------------------------------

TEST(Preflight, LeavesOutAProviderThatCrashes) {
  const Program gpux;
  for (const char* failure : {"crash-load", "crash-create", "crash-compile"}) {
    SCOPED_TRACE(failure);
    for (const char* isolation : {"thread", "process"}) {
      std::vector<std::string> run = with_provider({"run", model("multiply.onnx"), "--input", multiply_inputs});
      run.insert(run.end(), {"--isolation", isolation});
      const Surroundings options{.environment = {std::string("GPUX_EXAMPLE_FAIL=") + failure},
                                 .limit = std::chrono::seconds(30)};
      const Outcome outcome = gpux.run(run, options);
      EXPECT_EQ(outcome.json(), Json::parse(product)) << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("ran on cpu"));
      EXPECT_THAT(outcome.err, HasSubstr("not example: its library crashed when it was first loaded: the process was "
                                         "ended by signal 11 (SIGSEGV) (remedy: update the provider and its driver; "
                                         "--preflight off loads it nevertheless)"));
      EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
      run.emplace_back("--strict");
      EXPECT_EQ(gpux.run(run, options).code, 5);
    }
  }
  EXPECT_FALSE(fs::exists(gpux.home() / "preflight"));
}

TEST(Preflight, IsMadeOnceForALibrary) {
  const Program gpux;
  const std::vector<std::string> run = with_provider({"run", model("multiply.onnx"), "--input", multiply_inputs});
  EXPECT_EQ(gpux.run(run).code, 0);
  ASSERT_TRUE(fs::exists(gpux.home() / "preflight"));
  EXPECT_EQ(std::distance(fs::directory_iterator(gpux.home() / "preflight"), {}), 1);
  // The library is known to load: what it does now ends the worker.
  const Outcome outcome =
      gpux.run(run, {.environment = {"GPUX_EXAMPLE_FAIL=crash-compile"}, .limit = std::chrono::seconds(30)});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err, "gpux: the worker of 'multiply' was ended by signal 11 (SIGSEGV) while it loaded the model\n");
}

// The library never returns: its child process is ended, and the next provider runs the model.
TEST(Preflight, LeavesOutAProviderThatHangs) {
  const Program gpux;
  const std::string release = (gpux.folder().path() / "never").string();
  std::vector<std::string> run = with_provider({"run", model("multiply.onnx"), "--input", multiply_inputs});
  run.insert(run.end(), {"--preflight-timeout", "500ms"});
  const Outcome outcome =
      gpux.run(run, {.environment = {"GPUX_EXAMPLE_FAIL=hang-compile", "GPUX_EXAMPLE_RELEASE=" + release},
                     .limit = std::chrono::seconds(60)});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out), Json::parse(product));
  EXPECT_THAT(outcome.err, HasSubstr("ran on cpu"));
  EXPECT_THAT(outcome.err,
              HasSubstr("its library hung when it was first loaded: the process did not end within 0.5 s"));
  run.insert(run.end(), {"--preflight", "off"});
  const Outcome refused = gpux.run(run);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--preflight-timeout is about the preflight, and --preflight is off"));
}

TEST(Preflight, IsSkippedOnRequest) {
  const Program gpux;
  std::vector<std::string> run = with_provider({"run", model("multiply.onnx"), "--input", multiply_inputs});
  run.insert(run.end(), {"--preflight", "off"});
  const Outcome outcome =
      gpux.run(run, {.environment = {"GPUX_EXAMPLE_FAIL=crash-load"}, .limit = std::chrono::seconds(30)});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("while it loaded the model"));
  EXPECT_FALSE(fs::exists(gpux.home() / "preflight"));
}

TEST(Preflight, KeepsAServerUp) {
  const Program gpux;
  const Serving server(gpux, with_provider({"mul=" + model("multiply.onnx")}), {{"GPUX_EXAMPLE_FAIL", "crash-load"}});
  EXPECT_EQ(server.json(post("/predict", multiply_inputs)), Json::parse(product));
  EXPECT_THAT(server.json(get("/info")).dump(), HasSubstr("its library crashed when it was first loaded"));
  EXPECT_EQ(server.ask(get("/health/ready")).status, 200);
}

}  // namespace
}  // namespace gpux::test
