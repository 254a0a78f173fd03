#include "server/models/workers.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "base/machine.h"
#include "gpux/error.h"

namespace gpux::server {
namespace {

Runtime load(const LoadOptions& options) {
  return Runtime(std::string(GPUX_SOURCE_DIR) + "/tests/models/add.onnx", options);
}

TEST(Workers, AreReadFromWords) {
  EXPECT_EQ(worker_request_from("4", "--workers").count, 4U);
  EXPECT_EQ(worker_request_from("auto", "--workers").kind, WorkerRequest::Kind::automatic);
  EXPECT_EQ(worker_request_from("devices", "--workers").kind, WorkerRequest::Kind::devices);
  for (const char* text : {"", "0", "-1", "1025", "4x", "Auto", "1.5"}) {
    EXPECT_THROW((void)worker_request_from(text, "--workers"), Error) << text;
  }
}

TEST(Workers, AreWorthItWhereTheyWinByATenth) {
  struct Row {
    double shared, replicated;
    bool worth;
  };

  for (const Row& row : std::vector<Row>{
           {100, 200, true}, {100, 111, true}, {100, 109, false}, {100, 90, false}, {0, 0, false}, {100, 0, false}}) {
    EXPECT_EQ(replicas_are_worth_it(row.shared, row.replicated), row.worth) << row.shared << " " << row.replicated;
  }
}

TEST(Workers, ShareTheirSessionOrHaveOneADevice) {
  LoadOptions options;
  options.provider = "cpu";
  WorkerRequest request;
  request.count = 3;
  const Workers several = load_workers(request, options, false, load);
  EXPECT_EQ(several.sessions.size(), 1U);
  EXPECT_EQ(several.make_replicas().size(), 3U);

  request = {.kind = WorkerRequest::Kind::devices};
  const Workers devices = load_workers(request, options, false, load);
  EXPECT_EQ(devices.make_replicas().size(), devices.sessions.size());
  EXPECT_FALSE(devices.choice.empty());

  request = {.kind = WorkerRequest::Kind::automatic, .count = 1, .most = 1};
  const Workers one = load_workers(request, options, false, load);
  EXPECT_EQ(one.make_replicas().size(), 1U);
  EXPECT_EQ(one.choice, "1 worker: one usable processor");
}

TEST(Workers, TakeADeviceEachWithTheChosenOneFirst) {
  struct Row {
    std::size_t devices;
    std::optional<unsigned> chosen;
    unsigned most;
    std::vector<unsigned> expected;
  };

  for (const Row& row : std::vector<Row>{{2, {}, 0, {0, 1}},
                                         {1, {}, 0, {0}},
                                         {0, {}, 0, {0}},
                                         {4, 2, 0, {2, 0, 1, 3}},
                                         {4, {}, 2, {0, 1}},
                                         {4, 3, 1, {3}},
                                         {0, 1, 0, {1}}}) {
    std::vector<Device> devices(row.devices);
    for (std::size_t i = 0; i < devices.size(); ++i) devices[i].index = static_cast<std::uint32_t>(i);
    EXPECT_EQ(devices_of_workers(devices, row.chosen, row.most), row.expected);
  }
}

// Another server on this machine would choose the same processors, and leave the rest idle.
TEST(Workers, BindNoThreadToAProcessor) {
  LoadOptions options;
  options.provider = "cpu";
  const auto processors = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
    return set;
  };
  WorkerRequest request;
  request.count = std::max(usable_processors(Machine::this_one()), 2U);
  const Workers workers = load_workers(request, options, false, load);
  const NamedValues inputs = synthetic_inputs(workers.sessions.front()->info().signature);
  for (const auto& replica : workers.make_replicas()) {
    std::thread([&] {
      const cpu_set_t before = processors();
      EXPECT_EQ(replica->run(inputs, {0}).size(), 1U);
      const cpu_set_t after = processors();
      EXPECT_TRUE(CPU_EQUAL(&before, &after));
    }).join();
  }
}

TEST(Workers, SayWhatWasMeasured) {
  if (usable_processors(Machine::this_one()) < 2) GTEST_SKIP() << "needs a second processor";
  LoadOptions options;
  options.provider = "cpu";
  const Workers workers = load_workers({.kind = WorkerRequest::Kind::automatic}, options, false, load);
  EXPECT_NE(workers.choice.find("runs/s"), std::string::npos) << workers.choice;
  EXPECT_EQ(workers.make_replicas().size(), workers.replicas);
}

}  // namespace
}  // namespace gpux::server
