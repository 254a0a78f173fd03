// A server with a session on each of several devices, of which some fail: plugins/example lists and breaks them.
#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/failing_provider.h"
#include "cli/serving.h"

namespace gpux::test {
namespace {

namespace fs = std::filesystem;
using http::get;
using http::post;
using testing::HasSubstr;

const std::string body = R"({"a": [1, 2, 3], "b": [4, 5, 6]})";
const std::string product = R"({"y": [4, 10, 18]})";

class Devices : public testing::Test {
 protected:
  void start(const std::string& count, const std::string& failures, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments =
        with_provider({"mul=" + model("multiply.onnx"), "--workers", "devices", "--max-batch-size", "1"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    server_.emplace(gpux_, arguments,
                    std::vector<std::pair<std::string, std::string>>{{"GPUX_EXAMPLE_DEVICES", count},
                                                                     {"GPUX_EXAMPLE_FAIL", failures},
                                                                     {"GPUX_EXAMPLE_RELEASE", release_.string()}});
  }

  [[nodiscard]] Json replicas() const {
    return server_->json(get("/metrics", "Accept: application/json\r\n")).at("models").at(0).at("replicas");
  }

  [[nodiscard]] std::string state_of(std::size_t device) const {
    return replicas().at(device).at("state").get<std::string>();
  }

  // Eight clients at a time until `is_over`; their answers that were not 200.
  template <typename Condition>
  std::vector<std::string> ask_until(const Condition& is_over) {
    std::atomic<bool> ends = false;
    std::mutex mutex;
    std::vector<std::string> others;
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back([&] {
        RawClient client(server_->port());
        while (!ends) {
          const Answered answer = client.ask(post("/predict", body));
          const bool is_right = answer.status == 200 && Json::parse(answer.body) == Json::parse(product);
          const std::lock_guard lock(mutex);
          if (!is_right && others.size() < 100) others.push_back(std::to_string(answer.status) + " " + answer.body);
        }
      });
    }
    EXPECT_TRUE(http::eventually(is_over)) << replicas().dump(1);
    ends = true;
    for (std::thread& client : clients) client.join();
    return others;
  }

  Program gpux_;
  const fs::path release_ = gpux_.folder().path() / "release";
  std::optional<Serving> server_;
};

// A worker that cannot be started again costs its device, not the model.
TEST_F(Devices, ServeWhileOneWorkerIsMissing) {
  const fs::path file = gpux_.folder().path() / "multiply.onnx";
  fs::copy_file(model("multiply.onnx"), file);
  server_.emplace(gpux_,
                  with_provider({"mul=" + file.string(), "--workers", "devices", "--max-batch-size", "1", "--isolation",
                                 "process", "--max-restart-delay", "50ms"}),
                  std::vector<std::pair<std::string, std::string>>{{"GPUX_EXAMPLE_DEVICES", "2"}});
  const auto workers = [&] {
    return server_->json(get("/metrics", "Accept: application/json\r\n")).at("models").at(0).at("workers");
  };
  const auto end = [&](std::size_t index) {
    ::kill(workers().at(index).at("process_id").get<pid_t>(), SIGKILL);
    EXPECT_TRUE(http::eventually([&] { return workers().at(index).at("restarts") != 0; }));
  };
  ASSERT_EQ(workers().size(), 2U);
  EXPECT_EQ(server_->ask(get("/health/ready")).status, 200);
  // Its next worker would load another file than the first.
  fs::copy_file(model("add.onnx"), file, fs::copy_options::overwrite_existing);
  end(1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(server_->json(post("/predict", body)), Json::parse(product));
  EXPECT_EQ(server_->ask(get("/health/ready")).status, 200);
  const Json health = server_->json(get("/health"));
  EXPECT_EQ(health.at("status"), "degraded");
  EXPECT_THAT(health.dump(), HasSubstr("a worker process is being started again; the others serve"));
  EXPECT_THAT(server_->ask(get("/metrics")).body,
              HasSubstr("gpux_worker_ready{model=\"mul\",version=\"1.0.0\",worker=\"1\"} 0\n"));
  const Json listed = gpux_.run({"ps", "--json"}).json().at(0);
  EXPECT_EQ(listed.at("workers"), 2);
  EXPECT_EQ(listed.at("ready_workers"), 1);
  EXPECT_THAT(gpux_.run({"ps", "--table"}).out, HasSubstr("1 of 2"));
  end(0);
  EXPECT_EQ(server_->ask(get("/health/ready")).status, 503);
  EXPECT_EQ(server_->ask(post("/predict", body)).status, 503);
}

TEST_F(Devices, TakeOutTheOneThatFailsAndLoseNoRequest) {
  // One run at a time on each: of two that are in flight when the device breaks, both move.
  start("4", "broken:3@1", {"--runs-in-flight", "1"});
  EXPECT_THAT(ask_until([&] { return state_of(1) == "out"; }), testing::IsEmpty());
  const Json one = replicas().at(1);
  EXPECT_EQ(one.at("failures"), 1);
  EXPECT_THAT(one.at("last_failure").get<std::string>(), HasSubstr("was set to fail at: broken:"));
  EXPECT_EQ(one.at("device").at("name"), "example device 1");
  for (const std::size_t other : {0U, 2U, 3U}) EXPECT_EQ(state_of(other), "in_service") << other;
  // All of it is told, and the model is ready.
  const std::string metrics = server_->ask(get("/metrics")).body;
  const std::string labels = R"({model="mul",version="1.0.0",provider="example",index="1",device="example device 1")";
  EXPECT_THAT(metrics, HasSubstr("gpux_replica_state" + labels + ",state=\"out\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("gpux_replica_state" + labels + ",state=\"in_service\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("gpux_replica_failures_total" + labels + "} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("gpux_moved_requests_total{model=\"mul\",version=\"1.0.0\"} 1\n"));
  EXPECT_THAT(metrics,
              HasSubstr("nv_inference_request_failure{model=\"mul\",version=\"1.0.0\",reason=\"BACKEND\"} 0\n"));
  const Outcome servers = gpux_.run({"ps", "--table"});
  EXPECT_THAT(servers.out, HasSubstr("DEVICES"));
  EXPECT_THAT(servers.out, HasSubstr("3 of 4 "));
  EXPECT_EQ(gpux_.run({"ps", "--json"}).json().at(0).at("devices").at(1).at("state"), "out");
  EXPECT_EQ(server_->ask(get("/health/ready")).status, 200);
  const Json health = server_->json(get("/health"));
  EXPECT_EQ(health.at("status"), "degraded");
  EXPECT_THAT(health.dump(), HasSubstr("a device has failed; the others serve"));
  EXPECT_THAT(server_->log(), HasSubstr("example device 1 (example device 1) has failed and takes no requests until a "
                                        "trial run succeeds: "));
  // It works again, which a trial run finds.
  gpux_.folder().write("release", "");
  EXPECT_TRUE(http::eventually([&] { return state_of(1) == "in_service"; }));
  EXPECT_EQ(server_->json(get("/health")).at("status"), "healthy");
  EXPECT_THAT(server_->log(), HasSubstr("takes requests again"));
  server_->signal(SIGTERM);
  EXPECT_EQ(server_->wait(), 0);
}

// Each is loaded again when it is asked for. A model that takes nothing of the device stays.
TEST_F(Devices, HaveABudgetOfTheirMemory) {
  const std::vector<std::string> arguments =
      with_provider_in_thread({"one=" + model("multiply.onnx"), "two=" + model("multiply.onnx"),
                               "three=" + model("add.onnx"), "--device-memory-budget", "1"});
  server_.emplace(gpux_, arguments, std::vector<std::pair<std::string, std::string>>{{"GPUX_EXAMPLE_DEVICES", "2"}});
  for (const std::string name : {"one", "two", "one"}) {
    EXPECT_EQ(server_->json(post("/models/" + name + "/predict", body)), Json::parse(product));
    const std::string metrics = server_->ask(get("/metrics")).body;
    const std::string key = R"(",version="1.0.0",provider="example",index="0",device="example device 0"} )";
    EXPECT_THAT(metrics, HasSubstr("gpux_model_device_memory_bytes{model=\"" + name + key));
    const std::string other = name == "one" ? "two" : "one";
    EXPECT_THAT(metrics, Not(HasSubstr("gpux_model_device_memory_bytes{model=\"" + other)));
    EXPECT_THAT(metrics, Not(HasSubstr("gpux_model_device_memory_bytes{model=\"three")));
    EXPECT_EQ(server_->ask(get("/v2/models/three/ready")).status, 200);
  }
  EXPECT_THAT(server_->log(), HasSubstr("is unloaded to make room in the memory of example device 0"));
  EXPECT_THAT(server_->log(), Not(HasSubstr("model three 1.0.0 is unloaded")));
}

TEST_F(Devices, AnswerWithTheReasonWhereAllHaveFailed) {
  start("2", "broken:3");
  (void)ask_until([&] { return state_of(0) == "out" && state_of(1) == "out"; });
  const Answered refused = server_->ask(post("/predict", body));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("all devices of the model have failed (example device 0"));
  EXPECT_THAT(refused.body, HasSubstr("was set to fail at: broken:"));
  EXPECT_EQ(server_->ask(get("/health/ready")).status, 503);
  EXPECT_EQ(server_->ask(get("/v2/models/mul/ready")).status, 503);
  const Json health = server_->json(get("/health"), 503);
  EXPECT_EQ(health.at("status"), "unhealthy");
  EXPECT_THAT(health.dump(), HasSubstr("all its devices have failed"));
  gpux_.folder().write("release", "");
  EXPECT_TRUE(http::eventually([&] { return server_->ask(get("/health/ready")).status == 200; }));
  EXPECT_EQ(server_->json(post("/predict", body)), Json::parse(product));
  server_->signal(SIGTERM);
  EXPECT_EQ(server_->wait(), 0);
}

TEST_F(Devices, ServerShutsDownWhileADeviceIsOutOfService) {
  start("2", "broken:2@0");
  EXPECT_THAT(ask_until([&] { return state_of(0) == "out"; }), testing::IsEmpty());
  server_->signal(SIGTERM);
  EXPECT_EQ(server_->wait(), 0);
}

// One queue: a slow device gets what it can do, and does not stay idle.
TEST_F(Devices, GetWorkByTheirSpeed) {
  start("2", "slow:2@0,slow:40@1");
  const auto runs = [&](std::size_t device) { return replicas().at(device).at("runs").get<int>(); };
  EXPECT_THAT(ask_until([&] { return runs(0) + runs(1) >= 200; }), testing::IsEmpty());
  EXPECT_GT(runs(0), 3 * runs(1));
  EXPECT_GE(runs(1), 2);
}

}  // namespace
}  // namespace gpux::test
