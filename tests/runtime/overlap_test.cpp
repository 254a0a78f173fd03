// Runs that copy their inputs and outputs while another one computes, on the example provider.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "base/eventually.h"
#include "base/own_program.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "ort/compute_turn.h"
#include "runtime/example_device.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::runtime {
namespace {

using test::all_provider_counts;
using test::eventually;

class Overlap : public test::ExampleDevice {
 protected:
  void SetUp() override {
    ExampleDevice::SetUp();
    if (IsSkipped()) return;
    if (!has_pinned_memory()) GTEST_SKIP() << "the provider has no pinned memory";
    ::setenv("GPUX_EXAMPLE_RELEASE", release_file().c_str(), 1);
  }

  [[nodiscard]] std::filesystem::path release_file() const { return folder_.path() / "released"; }

  void release() const { std::ofstream(release_file()) << "now"; }

  /// Whose computations wait for release().
  [[nodiscard]] Runtime waiting() const {
    LoadOptions options = on_example();
    options.provider_options.push_back({.provider = "example", .values = {{"fail", "hang"}}, .where = {}});
    return Runtime(product_file(), options);
  }

  static std::unique_ptr<Scheduler> scheduler_of(const Runtime& runtime, std::size_t in_flight) {
    const auto turn = std::make_shared<ort::ComputeTurn>(1);
    std::vector<std::unique_ptr<Replica>> replicas;
    for (std::size_t i = 0; i < in_flight; ++i) {
      replicas.push_back(std::make_unique<SessionReplica>(runtime, 0, std::vector<unsigned>(), true, turn));
    }
    return std::make_unique<Scheduler>(std::move(replicas), SchedulerOptions{.computing_per_device = 1});
  }

  static std::future<InferAnswer> send(Scheduler& scheduler, float a, float b, Scheduler::Ticket* ticket = nullptr) {
    auto promise = std::make_shared<std::promise<InferAnswer>>();
    auto future = promise->get_future();
    const auto given = scheduler.submit(
        {.inputs = {{"a", floats({2}, {a, 1})}, {"b", floats({2}, {b, 2})}}, .outputs = {0}, .deadline = {}},
        [promise](InferAnswer&& answer) { promise->set_value(std::move(answer)); });
    if (ticket != nullptr) *ticket = given;
    return future;
  }

  static float product_of(std::future<InferAnswer> answer) {
    const InferAnswer given = answer.get();
    if (given.error) ADD_FAILURE() << given.error->message();
    return given.error ? -1 : given.outputs.front().second.tensor()->as<float>()[0];
  }
};

// Copies to the device since then.
std::uint64_t copies_since(std::uint64_t before) {
  return all_provider_counts()[0] - before;
}

TEST_F(Overlap, InputsAreCopiedWhileAnotherRunComputes) {
  const Runtime runtime = waiting();
  ASSERT_TRUE(runtime.uses_pinned_memory());
  const auto scheduler = scheduler_of(runtime, 2);
  const std::uint64_t before = all_provider_counts()[0];
  auto first = send(*scheduler, 3, 5);
  ASSERT_TRUE(eventually([&] { return copies_since(before) == 2; }));
  auto second = send(*scheduler, 4, 6), third = send(*scheduler, 2, 7);
  EXPECT_TRUE(eventually([&] { return copies_since(before) == 4; }));
  release();
  EXPECT_EQ(product_of(std::move(first)), 15);
  EXPECT_EQ(product_of(std::move(second)), 24);
  EXPECT_EQ(product_of(std::move(third)), 14);
}

TEST_F(Overlap, ARunThatWaitsToComputeIsStopped) {
  const Runtime runtime = waiting();
  const auto scheduler = scheduler_of(runtime, 2);
  const std::uint64_t before = all_provider_counts()[0];
  auto first = send(*scheduler, 3, 5);
  ASSERT_TRUE(eventually([&] { return copies_since(before) == 2; }));
  Scheduler::Ticket ticket = 0;
  auto second = send(*scheduler, 4, 6, &ticket);
  ASSERT_TRUE(eventually([&] { return copies_since(before) == 4; }));
  scheduler->cancel(ticket);
  const InferAnswer answer = second.get();
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->code(), ErrorCode::interrupted);
  // It leaves its place although the first still computes.
  EXPECT_TRUE(eventually([&] { return scheduler->counts().overdue_runs == 0; }));
  auto third = send(*scheduler, 2, 7);
  EXPECT_TRUE(eventually([&] { return copies_since(before) == 6; }));
  release();
  EXPECT_EQ(product_of(std::move(first)), 15);
  EXPECT_EQ(product_of(std::move(third)), 14);
}

// A run that computed there would not end before its worker is killed.
TEST_F(Overlap, RunsOfAWorkerProcessWaitThereToCompute) {
  set_worker_program(GPUX_PROGRAM);
  LoadOptions options = on_example();
  options.provider_options.push_back({.provider = "example", .values = {{"fail", "hang"}}, .where = {}});
  options.isolation = Isolation::process;
  const Runtime runtime(product_file(), options);
  set_worker_program({});
  EXPECT_TRUE(runtime.uses_pinned_memory());
  const auto scheduler = scheduler_of(runtime, 2);
  auto first = send(*scheduler, 3, 5);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  Scheduler::Ticket ticket = 0;
  auto second = send(*scheduler, 4, 6, &ticket);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  scheduler->cancel(ticket);
  const InferAnswer answer = second.get();
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->code(), ErrorCode::interrupted);
  EXPECT_TRUE(eventually([&] { return scheduler->counts().overdue_runs == 0; }));
  EXPECT_EQ(runtime.worker()->restarts, 0U);
  release();
  EXPECT_EQ(product_of(std::move(first)), 15);
  EXPECT_EQ(product_of(send(*scheduler, 2, 7)), 14);
  EXPECT_EQ(runtime.worker()->restarts, 0U);
}

TEST_F(Overlap, EachRequestGetsItsOwnResults) {
  ::setenv("GPUX_EXAMPLE_SPEED", "1,1,1", 1);
  const Runtime runtime = product();
  const auto scheduler = scheduler_of(runtime, 3);
  std::vector<std::future<InferAnswer>> answers;
  for (int i = 0; i < 60; ++i) answers.push_back(send(*scheduler, static_cast<float>(i), 3));
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(product_of(std::move(answers[static_cast<std::size_t>(i)])), 3 * static_cast<float>(i));
  }
  EXPECT_EQ(scheduler->counts().runs, 60U);
  ::unsetenv("GPUX_EXAMPLE_SPEED");
}

}  // namespace
}  // namespace gpux::runtime
