// What a user sees of a provider that fails, at each step: by plugins/example, from the command line and while serving.
// docs/custom-providers.md shows the same as a table.
#include "cli/failing_provider.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/serving.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using http::get;
using http::post;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

const std::string multiply_inputs = R"({"a": [1, 2, 3], "b": [4, 5, 6]})";
const std::string product = R"({"y": [4, 10, 18]})";
// Of masked_sum.onnx, which holds a constant of 4 bytes.
const std::string small = R"({"values": [[1, 2]], "mask": [[1, 1]]})";
const std::string small_answer = R"({"total": [3], "doubled": [[2, 4]]})";

Outcome run_failing(const Program& gpux, const std::string& command, const std::vector<std::string>& more,
                    const std::string& file = "multiply.onnx", const std::string& inputs = multiply_inputs) {
  std::vector<std::string> arguments = with_provider({"run", model(file), "--input", inputs});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return gpux.run(arguments, {.environment = {"GPUX_EXAMPLE_FAIL=" + command}, .limit = std::chrono::seconds(30)});
}

// --- before a session exists: the CPU takes its place ---------------------------------------------------------------

struct Replaced {
  const char* name;
  const char* command;
  const char* outcome;  // in the verdict
  const char* reason;
  std::string file = "multiply.onnx";
  std::string inputs = multiply_inputs;
  std::string answer = product;
};

void PrintTo(const Replaced& one, std::ostream* stream) {
  *stream << one.name;
}

class ReplacedProvider : public testing::TestWithParam<Replaced> {};

TEST_P(ReplacedProvider, IsNamedWithItsReasonAndTheCpuAnswers) {
  const Program gpux;
  const fs::path report = gpux.folder().path() / "report.json";
  const Outcome outcome =
      run_failing(gpux, GetParam().command, {"--report", report.string()}, GetParam().file, GetParam().inputs);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json(), Json::parse(GetParam().answer));
  EXPECT_THAT(outcome.err, StartsWith("gpux: ran on cpu ("));
  EXPECT_THAT(outcome.err, HasSubstr("; asked for example (--provider); not example: "));
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().reason));
  const Json attempt = Json::parse(read_file(report)).at("verdict").at("tried").at(0);
  EXPECT_EQ(attempt.at("provider"), "example");
  EXPECT_EQ(attempt.at("outcome"), GetParam().outcome);
  EXPECT_THAT(attempt.at("reason").get<std::string>(), HasSubstr(GetParam().reason));
}

TEST_P(ReplacedProvider, EndsAStrictRun) {
  const Program gpux;
  const Outcome outcome = run_failing(gpux, GetParam().command, {"--strict"}, GetParam().file, GetParam().inputs);
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("strict: example was requested (--provider): "));
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().reason));
}

TEST_P(ReplacedProvider, IsToldByAServer) {
  const Program gpux;
  const Serving server(gpux, with_provider({"mul=" + model(GetParam().file)}),
                       {{"GPUX_EXAMPLE_FAIL", GetParam().command}});
  const Json attempt = server.ready().at("models").at(0).at("verdict").at("tried").at(0);
  EXPECT_EQ(attempt.at("outcome"), GetParam().outcome);
  EXPECT_THAT(attempt.at("reason").get<std::string>(), HasSubstr(GetParam().reason));
  EXPECT_THAT(server.log(), HasSubstr(GetParam().reason));
  EXPECT_EQ(server.json(post("/predict", GetParam().inputs)), Json::parse(GetParam().answer));
  EXPECT_THAT(server.json(get("/info")).dump(), HasSubstr(GetParam().reason));
  EXPECT_EQ(server.ask(get("/health/ready")).status, 200);
  EXPECT_THAT(server.ask(get("/metrics")).body, HasSubstr("provider=\"cpu\""));
}

TEST_P(ReplacedProvider, EndsAStrictServer) {
  const Program gpux;
  const Outcome outcome = gpux.run(
      with_provider({"serve", model(GetParam().file), "--strict", "--port", "0", "--no-grpc"}),
      {.environment = {std::string("GPUX_EXAMPLE_FAIL=") + GetParam().command}, .limit = std::chrono::seconds(30)});
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    Table, ReplacedProvider,
    testing::Values(Replaced{"load", "load", "unavailable", "was set to fail at: load"},
                    Replaced{"no_device", "no-device", "unavailable", "lists no device"},
                    Replaced{"create", "create", "failed", "was set to fail at: create"},
                    Replaced{"capability", "capability", "failed", "was set to fail at: capability"},
                    Replaced{"claim_nothing", "claim-nothing", "no_nodes", "none of the model's nodes"},
                    Replaced{"compile", "compile", "failed", "was set to fail at: compile"},
                    Replaced{"no_room_for_the_weights", "out-of-memory:3", "failed",
                             "out of memory: the device has no room for 4 bytes", "masked_sum.onnx", small,
                             small_answer}),
    [](const auto& info) { return info.param.name; });

// --- in a run: that run fails, and no other -------------------------------------------------------------------------

TEST(FailingProvider, EndsARunOfTheCommandLine) {
  struct Case {
    const char* command;
    std::vector<std::string> more;
    int code;
    const char* says;
  };

  const Program gpux;
  for (const Case& one : std::vector<Case>{
           {"run:1", {}, 5, "was set to fail at: run:1"},
           {"run:1", {"--strict"}, 5, "was set to fail at: run:1"},
           {"out-of-memory:35", {}, 8, "out of memory: the device has no room for 12 bytes"},
           {"hang", {"--timeout", "300ms"}, 9, "no answer within 0.3 s; the run on example, cpu was signalled to stop"},
           {"slow:600000", {"--timeout", "300ms"}, 9, "no answer within 0.3 s"},  // beyond the limit of run_failing()
       }) {
    const Outcome outcome = run_failing(gpux, one.command, one.more);
    EXPECT_EQ(outcome.code, one.code) << one.command;
    EXPECT_EQ(outcome.out, "") << one.command;
    EXPECT_TRUE(is_one_line(outcome.err)) << one.command << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.says)) << one.command;
  }
  for (const char* command : {"slow:100", "run:2", "out-of-memory:36"}) {
    const Outcome outcome = run_failing(gpux, command, {"--strict"});
    EXPECT_EQ(outcome.code, 0) << command << outcome.err;
    EXPECT_EQ(outcome.json(), Json::parse(product)) << command;
  }
}

// Nothing can make a provider return that does not; the user can end the program.
TEST(FailingProvider, IsEndedByASignalWhereItHangs) {
  const Program gpux;
  for (const char* command : {"hang-compile", "hang"}) {
    for (const std::vector<std::string>& verb :
         {std::vector<std::string>{"run", model("multiply.onnx"), "--input", multiply_inputs},
          {"serve", model("multiply.onnx"), "--port", "0", "--no-grpc"}}) {
      SCOPED_TRACE(verb.front() + " " + command);
      const auto [child, out] =
          start(gpux, with_provider(verb), gpux.folder().path() / "log", false, {{"GPUX_EXAMPLE_FAIL", command}});
      std::this_thread::sleep_for(milliseconds(500));
      int status = 0;
      EXPECT_EQ(::waitpid(child, &status, WNOHANG), 0) << "ended early";
      ::kill(child, SIGTERM);
      const bool ended = http::eventually([&, child = child] { return ::waitpid(child, &status, WNOHANG) == child; });
      EXPECT_TRUE(ended);
      if (!ended) ::kill(child, SIGKILL);
      EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 130);
      ::close(out);
    }
  }
}

// A server runs each model once before it listens.
TEST(FailingProvider, EndsAServerThatCannotRunItsModel) {
  const Program gpux;
  const Outcome outcome = gpux.run(with_provider({"serve", model("multiply.onnx"), "--port", "0", "--no-grpc"}),
                                   {.environment = {"GPUX_EXAMPLE_FAIL=run:1"}, .limit = std::chrono::seconds(30)});
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("was set to fail at: run:1"));
}

struct FailedRun {
  const char* name;
  const char* command;
  const char* request;  // the one that fails
  int status;
  const char* says;
  const char* counted_as;
};

void PrintTo(const FailedRun& one, std::ostream* stream) {
  *stream << one.name;
}

class FailingRun : public testing::TestWithParam<FailedRun> {};

constexpr const char* large = R"({"values": [[1, 2, 3, 4]], "mask": [[1, 1, 1, 1]]})";

// One request fails; those before and after it, and those to another model, are answered.
TEST_P(FailingRun, CostsOneRequestOfAServer) {
  const Program gpux;
  // The command counts runs: a trial of whether requests can share them would be among those.
  Serving server(gpux,
                 with_provider({"mul=" + model("masked_sum.onnx"), "add=" + model("add.onnx"), "--timeout", "2s",
                                "--batch-axis", "none"}),
                 {{"GPUX_EXAMPLE_FAIL", GetParam().command}});
  ASSERT_THAT(server.log(), HasSubstr("ran on example")) << server.log();
  const auto expect_others = [&] {
    EXPECT_EQ(server.json(post("/models/mul/predict", small)), Json::parse(small_answer));
    EXPECT_EQ(server.json(post("/models/add/predict", R"({"x": [[1, 2, 3]]})")), Json::parse(R"({"y": [[2, 4, 6]]})"));
  };
  expect_others();
  const Answered failed = server.ask(post("/models/mul/predict", GetParam().request));
  EXPECT_EQ(failed.status, GetParam().status) << failed.body;
  EXPECT_THAT(failed.body, HasSubstr(GetParam().says));
  expect_others();
  EXPECT_EQ(server.ask(get("/health/ready")).status, 200);
  const std::string metrics = server.ask(get("/metrics")).body;
  EXPECT_THAT(metrics, HasSubstr("nv_inference_request_failure{model=\"mul\",version=\"1.0.0\",reason=\"" +
                                 std::string(GetParam().counted_as) + "\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("nv_inference_request_success{model=\"mul\",version=\"1.0.0\"} 2\n"));
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(Table, FailingRun,
                         // The model holds two Mul: a run of it computes two times, first to warm up. Its constant
                         // takes 4 bytes, each value of the small request 8.
                         testing::Values(FailedRun{"run", "run:5", large, 503, "was set to fail at: run:", "BACKEND"},
                                         FailedRun{"out_of_memory", "out-of-memory:40", large, 429,
                                                   "out of memory: the device has no room for 16 bytes", "BACKEND"}),
                         [](const auto& info) { return info.param.name; });

TEST(FailingProvider, IsWaitedForUpToTheTimeLimit) {
  struct Case {
    const char* command;
    int status;
  };

  for (const Case& one : {Case{"slow:100", 200}, Case{"slow:1500", 504}}) {
    const Program gpux;
    Serving server(gpux, with_provider({"mul=" + model("multiply.onnx"), "--timeout", "1s"}),
                   {{"GPUX_EXAMPLE_FAIL", one.command}});
    EXPECT_EQ(server.ask(post("/predict", multiply_inputs)).status, one.status) << one.command;
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait(), 0) << one.command;
  }
}

TEST(FailingProvider, HangsWithoutHoldingTheServer) {
  const Program gpux;
  const auto release = gpux.folder().write("release", "");
  Serving server(
      gpux, with_provider_in_thread({"mul=" + model("multiply.onnx"), "add=" + model("add.onnx"), "--timeout", "1s"}),
      {{"GPUX_EXAMPLE_FAIL", "hang"}, {"GPUX_EXAMPLE_RELEASE", release.string()}, leaves_threads()});
  EXPECT_EQ(server.json(post("/models/mul/predict", multiply_inputs)), Json::parse(product));
  fs::remove(release);
  const Answered late = server.ask(post("/models/mul/predict", multiply_inputs));
  EXPECT_EQ(late.status, 504) << late.body;
  EXPECT_EQ(server.json(post("/models/add/predict", R"({"x": [[1, 2, 3]]})")), Json::parse(R"({"y": [[2, 4, 6]]})"));
  EXPECT_THAT(server.ask(get("/metrics")).body, HasSubstr("gpux_overdue_run_count{model=\"mul\",version=\"1.0.0\"} 1"));
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << "the device still hangs";
  EXPECT_THAT(server.log(), HasSubstr("a device does not respond: shutting down without it"));
}

// A model is loaded anew while its old self serves; the load does not come back.
TEST(FailingProvider, HangsInALoadWithoutHoldingTheServer) {
  const Program gpux;
  const auto release = gpux.folder().write("release", "");
  Serving server(gpux,
                 with_provider_in_thread({"mul=" + model("multiply.onnx"), "add=" + model("add.onnx"),
                                          "--drain-timeout", "500ms", "--load-timeout", "1s"}),
                 {{"GPUX_EXAMPLE_FAIL", "hang-compile"}, {"GPUX_EXAMPLE_RELEASE", release.string()}, leaves_threads()});
  EXPECT_EQ(server.ask(post("/v2/repository/models/mul/load", "")).status, 200);
  fs::remove(release);
  const auto expect_late = [&](const std::string& what, const std::string& header) {
    const Json late = server.json(post("/v2/repository/models/" + what, "", header), 504);
    EXPECT_THAT(late.at("error").get<std::string>(), HasSubstr("loaded yet: it")) << what;
  };
  expect_late("mul/load", "X-Request-Timeout-Ms: 200\r\n");
  expect_late("mul/load", "");  // by --load-timeout
  expect_late("add/load", "");  // behind it
  EXPECT_EQ(server.json(post("/models/mul/predict", multiply_inputs)), Json::parse(product));
  EXPECT_EQ(server.json(post("/models/add/predict", R"({"x": [[1, 2, 3]]})")), Json::parse(R"({"y": [[2, 4, 6]]})"));
  EXPECT_EQ(server.ask(get("/health/live")).status, 200);
  // Taking a model out of service needs no device.
  EXPECT_EQ(server.ask(post("/v2/repository/models/add/unload", "")).status, 200);
  EXPECT_EQ(server.ask(post("/models/add/predict", R"({"x": [[1, 2, 3]]})")).status, 404);
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << "the device still hangs";
  EXPECT_THAT(server.log(), HasSubstr("a device does not respond: shutting down without it"));
}

// A server with one request in flight, for as long as the test wants.
class Draining : public testing::Test {
 protected:
  void start(const std::string& drain_timeout) {
    server_.emplace(gpux_, with_provider_in_thread({"mul=" + model("multiply.onnx"), "--drain-timeout", drain_timeout}),
                    std::vector<std::pair<std::string, std::string>>{
                        {"GPUX_EXAMPLE_FAIL", "hang"}, {"GPUX_EXAMPLE_RELEASE", release_.string()}, leaves_threads()});
    fs::remove(release_);
    client_ = std::thread([this] { answer_ = server_->ask(post("/models/mul/predict", multiply_inputs)); });
    EXPECT_TRUE(http::eventually([&] {
      return server_->ask(get("/metrics")).body.find("gpux_running_request_count{model=\"mul\",version=\"1.0.0\"} 1") !=
             std::string::npos;
    })) << server_->ask(get("/metrics")).body;
    server_->signal(SIGTERM);
    EXPECT_TRUE(http::eventually([&] { return server_->log().find("shutting down") != std::string::npos; }));
  }

  void TearDown() override {
    if (client_.joinable()) client_.join();
  }

  Program gpux_;
  const fs::path release_ = gpux_.folder().write("release", "");
  std::optional<Serving> server_;
  std::thread client_;
  Answered answer_;
};

TEST_F(Draining, IsFoundByStopAndLosesNothing) {
  start("1h");
  EXPECT_EQ(gpux_.run({"ps", "--json"}).json().size(), 1U);
  Outcome stopped;
  std::thread stopping([&] { stopped = gpux_.run({"stop"}); });
  // A second signal would have cut the request off.
  std::this_thread::sleep_for(milliseconds(300));
  gpux_.folder().write("release", "");
  stopping.join();
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("is shutting down already: waiting for it"));
  EXPECT_EQ(server_->wait(), 0) << server_->log();
  client_.join();
  EXPECT_EQ(answer_.status, 200) << answer_.body;
  EXPECT_TRUE(fs::is_empty(gpux_.home() / "servers"));
}

TEST_F(Draining, EndsAtItsLimit) {
  start("100ms");
  EXPECT_EQ(server_->wait(), 0) << server_->log();
  client_.join();
  EXPECT_EQ(answer_.status, 503) << "who is cut off is told so: " << answer_.body;
}

TEST_F(Draining, EndsAtASecondSignal) {
  start("1h");
  server_->signal(SIGTERM);
  EXPECT_EQ(server_->wait(), 130) << server_->log();
}

}  // namespace
}  // namespace gpux::test
