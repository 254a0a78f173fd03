#include "server/models/workers.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "base/eventually.h"
#include "base/machine.h"
#include "gpux/error.h"

namespace gpux::server {
namespace {

const Source flag{.kind = Source::Kind::flag, .name = "--workers", .place = {}};

Runtime load(const LoadOptions& options) {
  return Runtime(std::string(GPUX_SOURCE_DIR) + "/tests/models/add.onnx", options);
}

TEST(Workers, AreReadFromWords) {
  EXPECT_EQ(read_workers("4", flag).count, 4U);
  EXPECT_EQ(read_workers("auto", flag).kind, WorkerRequest::Kind::automatic);
  EXPECT_EQ(read_workers("devices", flag).kind, WorkerRequest::Kind::devices);
  EXPECT_EQ(read_workers("devices", flag).count, 0U);
  EXPECT_EQ(read_workers("devices:6", flag).kind, WorkerRequest::Kind::devices);
  EXPECT_EQ(read_workers("devices:6", flag).count, 6U);
  for (const char* text : {"", "0", "-1", "1025", "4x", "Auto", "1.5", "devices:", "devices:0", "devices:x"}) {
    EXPECT_THROW((void)read_workers(text, flag), Error) << text;
  }
}

TEST(Workers, AreWorthItWhereTheyWinByATenth) {
  struct Row {
    double shared, replicated;
    bool worth;
  };

  for (const Row& row : std::vector<Row>{
           {100, 200, true}, {100, 111, true}, {100, 109, false}, {100, 90, false}, {0, 0, false}, {100, 0, false}}) {
    EXPECT_EQ(should_replicate(row.shared, row.replicated), row.worth) << row.shared << " " << row.replicated;
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
  EXPECT_EQ(several.computing_per_device(), 0U);

  // The CPU copies nothing.
  request.in_flight = 5;
  const Workers asked = load_workers(request, options, false, load);
  EXPECT_EQ(asked.make_replicas().size(), 3U);
  EXPECT_EQ(asked.choice, "3 in flight: inputs and outputs are copied within the runs");

  request = read_workers("devices", flag);
  const Workers devices = load_workers(request, options, false, load);
  EXPECT_EQ(devices.make_replicas().size(), devices.sessions.size());
  EXPECT_FALSE(devices.choice.empty());

  request = {.kind = WorkerRequest::Kind::automatic, .count = 1, .most = 1};
  const Workers one = load_workers(request, options, false, load);
  EXPECT_EQ(one.make_replicas().size(), 1U);
  EXPECT_EQ(one.choice, "1 worker: one usable processor");
}

TEST(Workers, MayBePlacedOnTheDevicesWithTheFirstOneFirst) {
  struct Row {
    std::size_t devices;
    std::optional<unsigned> first;
    unsigned most;
    std::vector<unsigned> expected;
  };

  const std::map<std::string, provider::DeviceMemory> memory{{"address 1", {.total = 10, .free = 7}}};
  for (const Row& row : std::vector<Row>{{2, {}, 0, {0, 1}},
                                         {1, {}, 0, {0}},
                                         {0, {}, 0, {0}},
                                         {4, 2, 0, {2, 0, 1, 3}},
                                         {4, {}, 2, {0, 1}},
                                         {4, 3, 1, {3}},
                                         {0, 1, 0, {1}}}) {
    std::vector<Device> devices(row.devices);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      devices[i].index = static_cast<std::uint32_t>(i);
      devices[i].address = "address " + std::to_string(i);
    }
    std::vector<unsigned> indices;
    for (const provider::DeviceRoom& room : rooms_of(devices, row.first, row.most, memory)) {
      indices.push_back(room.index);
      EXPECT_EQ(room.free_bytes.has_value(), room.index == 1 && row.devices > 1);
    }
    EXPECT_EQ(indices, row.expected);
  }
}

// The first device has no room, which is known only when it is tried.
TEST(Workers, BeginOnADeviceThatHasRoom) {
  std::vector<std::optional<unsigned>> tried;
  const auto load_elsewhere = [&](const LoadOptions& options) -> Runtime {
    tried.push_back(options.device);
    if (tried.size() < 3) throw Error(ErrorCode::resource_exhausted, "out of memory");
    LoadOptions on_cpu = options;
    on_cpu.device.reset();
    return load(on_cpu);
  };
  LoadOptions options;
  options.provider = "cpu";
  const WorkerRequest request = read_workers("devices", flag);
  EXPECT_EQ(load_workers(request, options, false, load_elsewhere).sessions.size(), 1U);
  EXPECT_EQ(tried, (std::vector<std::optional<unsigned>>{std::nullopt, 1, 2}));
  // Nowhere: the first reason counts.
  tried.clear();
  const auto load_nowhere = [&](const LoadOptions& with) -> Runtime {
    tried.push_back(with.device);
    if (!with.device) throw Error(ErrorCode::resource_exhausted, "out of memory");
    throw Error(ErrorCode::provider_unavailable, "there is no device 1");
  };
  try {
    (void)load_workers(request, options, false, load_nowhere);
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
  }
  EXPECT_EQ(tried.size(), 2U);
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

TEST(Workers, ShareTheProcessorsOnRequest) {
  EXPECT_EQ(read_workers("cores:2", flag).kind, WorkerRequest::Kind::cores);
  LoadOptions options;
  options.provider = "cpu";
  const WorkerRequest request = read_workers("cores:1", flag);
  const ProcessorShare share = share_processors(read_processors(Machine::this_one()), 1).front();
  std::vector<LoadOptions> loads;
  const Workers workers = load_workers(request, options, false, [&](const LoadOptions& with) {
    loads.push_back(with);
    return load(with);
  });
  ASSERT_EQ(loads.size(), 1U);
  EXPECT_EQ(loads.front().intra_threads, share.threads);
  EXPECT_EQ(loads.front().session_config.size(), share.processors.size() > 1 ? 1U : 0U);
  EXPECT_EQ(workers.make_replicas().size(), 1U);
  // While it runs, the caller has the others.
  const NamedValues inputs = synthetic_inputs(workers.sessions.front()->info().signature);
  EXPECT_EQ(workers.make_replicas().front()->run(inputs, {0}).size(), 1U);

  EXPECT_EQ(load_workers(read_workers("cores:2", flag), options, false, load).sessions.size(), 2U);
  EXPECT_THROW((void)load_workers(request, options, true, load), Error) << "the threads are set, too";
}

std::set<std::string> threads_of_this_process() {
  std::set<std::string> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(task.path().filename());
  }
  return threads;
}

// The processors that a thread may use, as the kernel writes them: "1", "0-3,8". Empty where the thread has ended.
std::string processors_of_thread(const std::string& thread) {
  std::ifstream stream("/proc/self/task/" + thread + "/status");
  const std::string key = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(key)) return line.substr(key.size());
  }
  return {};
}

// How many threads that were not there before may use just the one processor, by its number.
std::map<std::string, int> bound_threads(const std::set<std::string>& before) {
  std::map<std::string, int> bound;
  for (const std::string& thread : threads_of_this_process()) {
    if (before.contains(thread)) continue;
    const std::string processors = processors_of_thread(thread);
    if (!processors.empty() && processors.find_first_of("-,") == std::string::npos) ++bound[processors];
  }
  return bound;
}

// The first thread of a share is the caller's, which is bound while it runs; the others are ONNX Runtime's.
TEST(Workers, OfCoresHaveAThreadOnEachOfTheirProcessors) {
  const ProcessorShare share = share_processors(read_processors(Machine::this_one()), 1).front();
  if (share.processors.size() < 2) {
    GTEST_SKIP() << "needs two cores without a quota: there is no thread but the caller's to bind";
  }
  LoadOptions options;
  options.provider = "cpu";
  const std::set<std::string> before = threads_of_this_process();
  std::map<std::string, int> expected;
  for (std::size_t i = 1; i < share.processors.size(); ++i) expected[std::to_string(share.processors[i])] = 1;
  {
    const Workers workers = load_workers(read_workers("cores:1", flag), options, false, load);
    // They bind themselves when they start.
    EXPECT_TRUE(test::eventually([&] { return bound_threads(before) == expected; }))
        << bound_threads(before).size() << " processors have threads of their own, and " << expected.size()
        << " are expected";
    // And stay so in a run.
    const NamedValues inputs = synthetic_inputs(workers.sessions.front()->info().signature);
    EXPECT_EQ(workers.make_replicas().front()->run(inputs, {0}).size(), 1U);
    EXPECT_EQ(bound_threads(before), expected);
  }
  // Threads of other sessions are free to move.
  LoadOptions with_threads = options;
  with_threads.intra_threads = static_cast<unsigned>(share.processors.size());
  const std::set<std::string> those_before = threads_of_this_process();
  const Workers unbound = load_workers(read_workers("1", flag), with_threads, true, load);
  const NamedValues inputs = synthetic_inputs(unbound.sessions.front()->info().signature);
  EXPECT_EQ(unbound.make_replicas().front()->run(inputs, {0}).size(), 1U);
  EXPECT_TRUE(bound_threads(those_before).empty());
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
