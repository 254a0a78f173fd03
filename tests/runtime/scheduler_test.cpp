#include "runtime/scheduling/scheduler.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>

namespace gpux::runtime {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

// Doubles its input, output 1 triples it and so on, and remembers the rows of each run. While the gate is shut a run
// waits, until it is opened or stopped. A value of 13 anywhere fails the whole run.
class Doubler : public Replica {
 public:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = true;
    bool stoppable = true;
    bool loses_workers = false;  // a run that fails ends its process
    int entered = 0;
    std::atomic<int> left = 0;
    std::vector<std::int64_t> runs;
    std::vector<float> order;  // first value of each run

    void set_open(bool value) {
      const std::lock_guard lock(mutex);
      open = value;
      changed.notify_all();
    }

    void wait_for_entered(int count) {
      std::unique_lock lock(mutex);
      ASSERT_TRUE(changed.wait_for(lock, 20s, [&] { return entered >= count; }));
    }
  };

  explicit Doubler(Shared& shared) : shared_(shared) {}

  NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs) override {
    const Tensor& input = *inputs[0].second.tensor();
    std::unique_lock lock(shared_.mutex);
    stopped_ = false;
    ++shared_.entered;
    shared_.runs.push_back(input.shape()[0]);
    shared_.order.push_back(input.as<float>()[0]);
    shared_.changed.notify_all();
    shared_.changed.wait(lock, [&] { return shared_.open || (stopped_ && shared_.stoppable); });
    ++shared_.left;
    if (stopped_ && shared_.stoppable) throw Error(ErrorCode::interrupted, "stopped");
    lock.unlock();
    NamedValues results;
    for (const std::size_t index : outputs) {
      Tensor output = Tensor::allocate(ElementType::float32, input.shape());
      for (std::size_t i = 0; i < input.as<float>().size(); ++i) {
        if (input.as<float>()[i] == 13) throw Error(ErrorCode::invalid_input, "13 is no number to double");
        output.mutable_as<float>()[i] = static_cast<float>(2 + index) * input.as<float>()[i];
      }
      results.emplace_back(index == 0 ? "y" : "y" + std::to_string(index), std::move(output));
    }
    return results;
  }

  void stop() override {
    const std::lock_guard lock(shared_.mutex);
    stopped_ = true;
    shared_.changed.notify_all();
  }

  [[nodiscard]] bool has_lost_its_worker() const noexcept override { return shared_.loses_workers; }

 private:
  Shared& shared_;
  bool stopped_ = false;
};

InferRequest request(std::vector<float> rows) {
  const auto count = static_cast<std::int64_t>(rows.size());
  return {.inputs = {{"x", Tensor::of<float>({count, 1}, rows)}}, .outputs = {0}, .priority = 0, .deadline = {}};
}

InferRequest request_of(Shape shape, std::vector<float> values) {
  return {
      .inputs = {{"x", Tensor::of<float>(std::move(shape), values)}}, .outputs = {0}, .priority = 0, .deadline = {}};
}

// Of a model x float32[batch, seq] -> y float32[batch, seq].
std::shared_ptr<const Padding> padding_of_x() {
  Signature signature;
  for (const char* name : {"x", "y"}) {
    SignatureEntry entry;
    entry.name = name;
    entry.type.element = ElementType::float32;
    entry.type.dimensions = {{std::nullopt, "batch"}, {std::nullopt, "seq"}};
    (name == std::string("x") ? signature.inputs : signature.outputs).push_back(entry);
  }
  return std::make_shared<const Padding>(read_padding({{"x", "0"}}, signature, "padding"));
}

std::vector<float> values(const InferAnswer& answer) {
  const auto view = answer.outputs.at(0).second.tensor()->as<float>();
  return {view.begin(), view.end()};
}

struct Caller {
  explicit Caller(Scheduler& scheduler) : scheduler_(scheduler) {}

  std::future<InferAnswer> send(InferRequest what, Scheduler::Ticket* ticket = nullptr) {
    auto promise = std::make_shared<std::promise<InferAnswer>>();
    auto future = promise->get_future();
    const auto given =
        scheduler_.submit(std::move(what), [promise](InferAnswer&& answer) { promise->set_value(std::move(answer)); });
    if (ticket != nullptr) *ticket = given;
    return future;
  }

  /// Holds the only replica of `shared` in a run until it is opened, so that what is sent next has to wait.
  std::future<InferAnswer> occupy(Doubler::Shared& shared, InferRequest what = request({1})) {
    shared.set_open(false);
    auto future = send(std::move(what));
    shared.wait_for_entered(1);
    return future;
  }

 private:
  Scheduler& scheduler_;
};

std::vector<std::unique_ptr<Replica>> replicas(Doubler::Shared& shared, int count = 1) {
  std::vector<std::unique_ptr<Replica>> made;
  for (int i = 0; i < count; ++i) made.push_back(std::make_unique<Doubler>(shared));
  return made;
}

TEST(Scheduler, GivesEachCallerItsOwnRowsOfASharedRun) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), {.batch = {.max_rows = 8}, .can_batch = true});
  Caller caller(scheduler);
  auto blocker = caller.occupy(shared);
  auto a = caller.send(request({2, 3}));
  auto b = caller.send(request({4}));
  auto c = caller.send(request({5, 6, 7}));
  shared.set_open(true);
  EXPECT_THAT(values(blocker.get()), ElementsAre(2));
  EXPECT_THAT(values(a.get()), ElementsAre(4, 6));
  const InferAnswer answer = b.get();
  EXPECT_THAT(values(answer), ElementsAre(8));
  EXPECT_EQ(answer.times.batch_requests, 3U);
  EXPECT_EQ(answer.times.batch_rows, 6);
  EXPECT_THAT(values(c.get()), ElementsAre(10, 12, 14));
  EXPECT_THAT(shared.runs, ElementsAre(1, 6));
  EXPECT_EQ(scheduler.counts().runs, 2U);
}

TEST(Scheduler, FillsSharedRunsUpToFewSizes) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), {.batch = {.max_rows = 8, .fills_rows = true}, .can_batch = true});
  Caller caller(scheduler);
  auto blocker = caller.occupy(shared);
  auto a = caller.send(request({2, 3}));
  auto b = caller.send(request({4}));
  auto c = caller.send(request({5, 6}));
  shared.set_open(true);
  EXPECT_THAT(values(a.get()), ElementsAre(4, 6));
  const InferAnswer answer = b.get();
  EXPECT_THAT(values(answer), ElementsAre(8));
  EXPECT_EQ(answer.times.batch_rows, 5) << "what fills up is nobody's";
  EXPECT_THAT(values(c.get()), ElementsAre(10, 12));
  // One that runs alone is as it came.
  auto alone = caller.send(request({7, 8, 9}));
  EXPECT_THAT(values(alone.get()), ElementsAre(14, 16, 18));
  EXPECT_THAT(shared.runs, ElementsAre(1, 8, 3));
}

TEST(Scheduler, GivesEachCallerTheOutputsOfItsRequest) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), {.batch = {.max_rows = 8}, .can_batch = true});
  Caller caller(scheduler);
  auto blocker = caller.occupy(shared);
  const std::vector<std::size_t> wanted[] = {{0}, {1}, {0, 1}, {1, 0}, {0}};
  std::vector<std::future<InferAnswer>> answers;
  for (const std::vector<std::size_t>& outputs : wanted) {
    InferRequest one = request({10});
    one.outputs = outputs;
    answers.push_back(caller.send(std::move(one)));
  }
  shared.set_open(true);
  (void)blocker.get();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const InferAnswer answer = answers[i].get();
    ASSERT_FALSE(answer.error) << answer.error->message();
    ASSERT_EQ(answer.outputs.size(), wanted[i].size()) << i;
    for (std::size_t k = 0; k < wanted[i].size(); ++k) {
      EXPECT_THAT(answer.outputs[k].second.tensor()->as<float>(), ElementsAre(wanted[i][k] == 0 ? 20 : 30)) << i;
    }
  }
  // The first and the last, which agree, shared one.
  EXPECT_THAT(shared.runs, ElementsAre(1, 2, 1, 1, 1));
}

TEST(Scheduler, AFullBatchIsPreparedWhileTheReplicaRuns) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), {.batch = {.max_rows = 2}, .can_batch = true});
  Caller caller(scheduler);
  auto blocker = caller.occupy(shared);
  auto a = caller.send(request({2}));
  auto b = caller.send(request({3}));
  // Taken off the queue though no replica is free.
  for (int i = 0; i < 2000 && scheduler.counts().waiting != 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(scheduler.counts().waiting, 0U);
  auto last = caller.send(request({4}));
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(scheduler.counts().waiting, 1U);
  shared.set_open(true);
  (void)last.get();
  EXPECT_THAT(shared.runs, ElementsAre(1, 2, 1));
}

// The other replica would only copy its inputs, and what comes meanwhile can still join them.
TEST(Scheduler, OnlyAFullBatchFollowsTheRunThatComputes) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared, 2), {.batch = {.max_rows = 3}, .can_batch = true, .computing_per_device = 1});
  Caller caller(scheduler);
  auto blocker = caller.occupy(shared);
  auto a = caller.send(request({2}));
  auto b = caller.send(request({3}));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // time in which the second one could take them
  auto c = caller.send(request({4}));
  shared.wait_for_entered(2);
  auto last = caller.send(request({5}));
  shared.set_open(true);
  EXPECT_THAT(values(blocker.get()), ElementsAre(2));
  EXPECT_THAT(values(a.get()), ElementsAre(4));
  EXPECT_THAT(values(b.get()), ElementsAre(6));
  EXPECT_THAT(values(c.get()), ElementsAre(8));
  EXPECT_THAT(values(last.get()), ElementsAre(10));
  EXPECT_THAT(shared.runs, ElementsAre(1, 3, 1));
}

TEST(Scheduler, ABatchThatIsFullByItsElementsIsPreparedToo) {
  for (const bool padded : {false, true}) {
    Doubler::Shared shared;
    SchedulerOptions options{.batch = {.max_rows = 8, .max_cost = 6}, .can_batch = true};
    if (padded) options.padding = padding_of_x();
    Scheduler scheduler(replicas(shared), options);
    Caller caller(scheduler);
    auto blocker = caller.occupy(shared, request_of({1, 1}, {1}));
    auto a = caller.send(request_of({1, 3}, {2, 3, 4}));
    auto b = caller.send(request_of({1, padded ? 1 : 3}, padded ? std::vector<float>{5} : std::vector<float>{5, 6, 7}));
    // Taken off the queue though no replica is free.
    for (int i = 0; i < 2000 && scheduler.counts().waiting != 0; ++i) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(scheduler.counts().waiting, 0U);
    shared.set_open(true);
    EXPECT_THAT(values(a.get()), ElementsAre(4, 6, 8));
    const InferAnswer answer = b.get();
    EXPECT_EQ(values(answer).front(), 10);
    EXPECT_EQ(answer.outputs.front().second.tensor()->shape(), (Shape{1, padded ? 1 : 3}));
    EXPECT_THAT(shared.runs, ElementsAre(1, 2));
  }
}

TEST(Scheduler, APaddedBatchWithABadRequestIsRunOneByOneAsItCame) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), {.batch = {.max_rows = 8}, .can_batch = true, .padding = padding_of_x()});
  Caller caller(scheduler);
  auto blocker = caller.occupy(shared, request_of({1, 1}, {1}));
  auto good = caller.send(request_of({1, 2}, {2, 3}));
  auto bad = caller.send(request_of({1, 1}, {13}));
  auto also_good = caller.send(request_of({2, 3}, {1, 2, 3, 4, 5, 6}));
  shared.set_open(true);
  EXPECT_THAT(values(good.get()), ElementsAre(4, 6));
  EXPECT_EQ(bad.get().error->code(), ErrorCode::invalid_input);
  EXPECT_THAT(values(also_good.get()), ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_THAT(shared.runs, ElementsAre(1, 4, 1, 1, 2));
  EXPECT_EQ(scheduler.counts().retried, 1U);
}

// The signature says of an output that it has the padded size where it has none.
TEST(Scheduler, WhatCannotBeCutBackIsRunOneByOneFromThenOn) {
  Doubler::Shared shared;
  Padding padding = *padding_of_x();
  padding.sizes.front().outputs.push_back({"y", 2});
  Scheduler scheduler(replicas(shared), {.batch = {.max_rows = 2, .max_delay = 1h},
                                         .can_batch = true,
                                         .padding = std::make_shared<const Padding>(padding)});
  Caller caller(scheduler);
  auto one = caller.send(request_of({1, 1}, {1}));
  auto other = caller.send(request_of({1, 2}, {2, 3}));
  EXPECT_THAT(values(one.get()), ElementsAre(2));
  EXPECT_THAT(values(other.get()), ElementsAre(4, 6));
  EXPECT_THAT(values(caller.send(request_of({1, 2}, {4, 5})).get()), ElementsAre(8, 10));
  EXPECT_THAT(shared.runs, ElementsAre(2, 1, 1, 1));
}

// The request to blame would end the next worker, too.
TEST(Scheduler, ABatchThatEndedItsWorkerIsNotRepeated) {
  Doubler::Shared shared;
  shared.loses_workers = true;
  Scheduler scheduler(replicas(shared), {.batch = {.max_rows = 8}, .can_batch = true});
  Caller caller(scheduler);
  auto blocker = caller.occupy(shared);
  auto good = caller.send(request({2}));
  auto bad = caller.send(request({13}));
  shared.set_open(true);
  EXPECT_TRUE(bad.get().error);
  EXPECT_TRUE(good.get().error);
  EXPECT_EQ(scheduler.counts().retried, 0U);
  EXPECT_THAT(shared.runs, ElementsAre(1, 2));
}

TEST(Scheduler, ABadRequestFailsAlone) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), {.batch = {.max_rows = 8}, .can_batch = true});
  Caller caller(scheduler);
  auto blocker = caller.occupy(shared);
  auto good = caller.send(request({2}));
  auto bad = caller.send(request({13}));
  auto also_good = caller.send(request({3}));
  shared.set_open(true);
  EXPECT_THAT(values(good.get()), ElementsAre(4));
  EXPECT_THAT(values(also_good.get()), ElementsAre(6));
  const InferAnswer answer = bad.get();
  ASSERT_TRUE(answer.error);
  EXPECT_EQ(answer.error->code(), ErrorCode::invalid_input);
  EXPECT_THAT(shared.runs, ElementsAre(1, 3, 1, 1, 1));
  EXPECT_EQ(scheduler.counts().retried, 1U);
}

TEST(Scheduler, RefusesAtOnceWhenTheQueueIsFull) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), {.batch = {.max_rows = 64}, .can_batch = true, .max_queue = 2});
  Caller caller(scheduler);
  auto blocker = caller.occupy(shared);
  auto a = caller.send(request({2}));
  auto b = caller.send(request({3}));
  try {
    auto refused = caller.send(request({4}));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    EXPECT_THAT(error.message(), HasSubstr("2 requests are waiting"));
  }
  EXPECT_EQ(scheduler.counts().rejected, 1U);
  shared.set_open(true);
  EXPECT_THAT(values(b.get()), ElementsAre(6));
}

TEST(Scheduler, AnswersAtTheDeadlineWhereverTheRequestIs) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), {});
  Caller caller(scheduler);
  shared.set_open(false);
  shared.stoppable = false;
  InferRequest running = request({1});
  running.deadline = std::chrono::steady_clock::now() + 50ms;
  auto first = caller.send(std::move(running));
  shared.wait_for_entered(1);
  InferRequest taken = request({2});
  auto prepared = caller.send(std::move(taken));
  InferRequest waiting = request({3});
  waiting.deadline = std::chrono::steady_clock::now() + 60ms;
  auto second = caller.send(std::move(waiting));
  EXPECT_EQ(first.get().error->code(), ErrorCode::deadline_exceeded);
  EXPECT_THAT(second.get().error->message(), HasSubstr("in the queue"));
  EXPECT_EQ(scheduler.counts().overdue_runs, 1U);
  EXPECT_EQ(scheduler.counts().expired, 2U);
  shared.set_open(true);
  EXPECT_THAT(values(prepared.get()), ElementsAre(4));
  EXPECT_EQ(scheduler.counts().overdue_runs, 0U);
  EXPECT_THAT(shared.runs, ElementsAre(1, 1));
}

TEST(Scheduler, DropsWhatIsCancelledAndStopsTheRunThatNobodyWaitsFor) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), {});
  Caller caller(scheduler);
  shared.set_open(false);
  Scheduler::Ticket running = 0, waiting = 0;
  auto first = caller.send(request({1}), &running);
  shared.wait_for_entered(1);
  auto prepared = caller.send(request({2}));
  auto second = caller.send(request({3}), &waiting);
  scheduler.cancel(waiting);
  EXPECT_EQ(second.get().error->code(), ErrorCode::interrupted);
  scheduler.cancel(running);
  EXPECT_EQ(first.get().error->code(), ErrorCode::interrupted);
  shared.wait_for_entered(2);  // the gate is still shut: the first run was stopped
  scheduler.cancel(running);   // too late, without effect
  shared.set_open(true);
  EXPECT_THAT(values(prepared.get()), ElementsAre(4));
  EXPECT_EQ(scheduler.counts().cancelled, 2U);
}

TEST(Scheduler, ServesByPriorityAndThenByArrival) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), {});
  Caller caller(scheduler);
  auto blocker = caller.occupy(shared);
  auto prepared = caller.send(request({2}));
  for (int i = 0; i < 2000 && scheduler.counts().waiting != 0; ++i) std::this_thread::sleep_for(1ms);
  std::vector<std::future<InferAnswer>> futures;
  for (const auto& [value, priority] : std::vector<std::pair<float, int>>{{3, 2}, {4, 1}, {5, 2}, {6, 1}, {7, 0}}) {
    InferRequest next = request({value});
    next.priority = priority;
    futures.push_back(caller.send(std::move(next)));
  }
  std::promise<void> probed;
  scheduler.submit_first(request({8}), [&](InferAnswer&&) { probed.set_value(); });
  shared.set_open(true);
  for (auto& future : futures) (void)future.get();
  probed.get_future().wait();
  EXPECT_THAT(shared.order, ElementsAre(1, 2, 8, 7, 4, 6, 3, 5));
}

TEST(Scheduler, ClosesWhenAllIsAnswered) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), {});
  Caller caller(scheduler);
  shared.set_open(false);
  auto blocker = caller.send(request({1}));
  EXPECT_FALSE(scheduler.close(std::chrono::steady_clock::now() + 10ms));
  EXPECT_THROW((void)caller.send(request({2})), Error);
  shared.set_open(true);
  EXPECT_TRUE(scheduler.close(std::chrono::steady_clock::now() + 20s));
  EXPECT_THAT(values(blocker.get()), ElementsAre(2));
}

TEST(Scheduler, ShutdownAnswersRunningAndWaitingRequests) {
  Doubler::Shared shared;
  std::future<InferAnswer> running, waiting;
  {
    Scheduler scheduler(replicas(shared), {});
    Caller caller(scheduler);
    shared.set_open(false);
    running = caller.send(request({1}));
    shared.wait_for_entered(1);
    waiting = caller.send(request({2}));
  }
  EXPECT_EQ(running.get().error->code(), ErrorCode::interrupted);
  EXPECT_EQ(waiting.get().error->code(), ErrorCode::interrupted);
}

// Of the tests below: everything that has been seen counts as quick, however slow the machine is.
SchedulerOptions everything_is_quick() {
  return {.batch = {.max_rows = 8}, .can_batch = true, .quick_run = 100s, .quick_run_if_batchable = 100s};
}

// Sends the request, waiting for its answer, until such runs are known; the answer that came within submit().
InferAnswer send_until_here(Scheduler& scheduler, const InferRequest& what) {
  for (int i = 0; i < 20'000; ++i) {
    auto promise = std::make_shared<std::promise<InferAnswer>>();
    auto future = promise->get_future();
    std::thread::id answered_on;
    const auto ticket = scheduler.submit(
        what,
        [&, promise](InferAnswer&& answer) {
          answered_on = std::this_thread::get_id();
          promise->set_value(std::move(answer));
        },
        Here::allowed);
    InferAnswer answer = future.get();
    if (ticket != 0) continue;  // what it taught may be known only after its answer
    EXPECT_EQ(answered_on, std::this_thread::get_id());
    return answer;
  }
  ADD_FAILURE() << "never ran here";
  return {};
}

// Whether it would run on this thread now; where not, it is queued.
bool runs_here(Scheduler& scheduler, const InferRequest& what, Here here = Here::allowed) {
  return scheduler.submit(
             what, [](InferAnswer&&) {}, here) == 0;
}

TEST(SchedulerLanes, RunWhatIsKnownToBeQuickOnTheCallersThread) {
  Doubler::Shared shared;
  std::atomic<int> reports = 0;
  SchedulerOptions options = everything_is_quick();
  options.on_run = [&](const RunReport&) { ++reports; };
  Scheduler scheduler(replicas(shared), options, replicas(shared));
  EXPECT_FALSE(runs_here(scheduler, request({1, 2})));  // never seen
  const InferAnswer answer = send_until_here(scheduler, request({3, 4}));
  EXPECT_THAT(values(answer), ElementsAre(6, 8));
  EXPECT_EQ(answer.times.batch_requests, 1U);
  EXPECT_EQ(answer.times.batch_rows, 2);
  EXPECT_TRUE(runs_here(scheduler, request({5, 6})));
  EXPECT_FALSE(runs_here(scheduler, request({5, 6}), Here::no));
  EXPECT_TRUE(scheduler.close(std::chrono::steady_clock::now() + 20s));
  const SchedulerCounts counts = scheduler.counts();
  EXPECT_EQ(counts.here, 2U);
  EXPECT_EQ(counts.runs, shared.runs.size());
  EXPECT_EQ(static_cast<std::size_t>(reports), shared.runs.size());
  EXPECT_EQ(counts.running, 0U);
}

TEST(SchedulerLanes, AreNotForOtherSizes) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), everything_is_quick(), replicas(shared));
  (void)send_until_here(scheduler, request({1}));
  EXPECT_FALSE(runs_here(scheduler, request({1, 2})));
}

TEST(SchedulerLanes, AreNotForRunsThatWereSlow) {
  Doubler::Shared shared;
  SchedulerOptions options = everything_is_quick();
  options.quick_run = options.quick_run_if_batchable = 20ms;
  Scheduler scheduler(replicas(shared), options, replicas(shared));
  Caller caller(scheduler);
  shared.set_open(false);
  auto slow = caller.send(request({1}));
  shared.wait_for_entered(1);
  std::this_thread::sleep_for(60ms);
  shared.set_open(true);
  (void)slow.get();
  // It is remembered for some time, whether or not the next are quick.
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(runs_here(scheduler, request({2})));
    std::this_thread::sleep_for(1ms);
  }
}

TEST(SchedulerLanes, AreNotUsedWhileSomethingWaits) {
  Doubler::Shared shared;
  SchedulerOptions options = everything_is_quick();
  options.can_batch = false;
  Scheduler scheduler(replicas(shared), options, replicas(shared));
  (void)send_until_here(scheduler, request({1}));
  shared.set_open(false);
  const int before = shared.entered;
  EXPECT_FALSE(runs_here(scheduler, request({2}), Here::no));
  shared.wait_for_entered(before + 1);
  EXPECT_FALSE(runs_here(scheduler, request({3}), Here::no));
  EXPECT_FALSE(runs_here(scheduler, request({4})));
  shared.set_open(true);
}

TEST(SchedulerLanes, LeaveRequestsThatCouldShareARunToTheQueue) {
  Doubler::Shared shared;
  SchedulerOptions options = everything_is_quick();
  options.quick_run_if_batchable = 0us;
  Scheduler scheduler(replicas(shared), options, replicas(shared));
  (void)send_until_here(scheduler, request({1}));
  shared.set_open(false);
  const int before = shared.entered;
  EXPECT_FALSE(runs_here(scheduler, request({2}), Here::no));
  shared.wait_for_entered(before + 1);
  EXPECT_FALSE(runs_here(scheduler, request({3})));
  shared.set_open(true);
}

TEST(SchedulerLanes, AreNotUsedWhereRequestsAreToWaitForOthers) {
  Doubler::Shared shared;
  SchedulerOptions options = everything_is_quick();
  options.batch.max_delay = 1ms;
  Scheduler scheduler(replicas(shared), options, replicas(shared));
  Caller caller(scheduler);
  for (int i = 0; i < 20; ++i) {
    (void)caller.send(request({1})).get();
    EXPECT_FALSE(runs_here(scheduler, request({1})));
  }
}

TEST(SchedulerLanes, AnswerAtTheDeadlineAndRefuseAfterIt) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), everything_is_quick(), replicas(shared));
  (void)send_until_here(scheduler, request({1}));
  InferRequest late = request({2});
  late.deadline = std::chrono::steady_clock::now() - 1ms;
  EXPECT_THROW((void)runs_here(scheduler, late), Error);
  shared.set_open(false);
  InferRequest slow = request({3});
  slow.deadline = std::chrono::steady_clock::now() + 50ms;
  std::promise<InferAnswer> promise;
  const auto ticket = scheduler.submit(
      slow, [&](InferAnswer&& answer) { promise.set_value(std::move(answer)); }, Here::allowed);
  EXPECT_EQ(ticket, 0U);  // the run was stopped: the gate is still shut
  EXPECT_EQ(promise.get_future().get().error->code(), ErrorCode::deadline_exceeded);
  const SchedulerCounts counts = scheduler.counts();
  EXPECT_EQ(counts.expired, 2U);
  EXPECT_EQ(counts.overdue_runs, 0U);
  EXPECT_EQ(counts.running, 0U);
  shared.set_open(true);
}

TEST(SchedulerLanes, ReportAFailureToTheirCallerAlone) {
  Doubler::Shared shared;
  Scheduler scheduler(replicas(shared), everything_is_quick(), replicas(shared));
  (void)send_until_here(scheduler, request({1}));
  std::optional<InferAnswer> answer;
  EXPECT_EQ(scheduler.submit(
                request({13}), [&](InferAnswer&& given) { answer = std::move(given); }, Here::allowed),
            0U);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error->code(), ErrorCode::invalid_input);
  EXPECT_TRUE(runs_here(scheduler, request({2})));
}

TEST(SchedulerLanes, TheEndWaitsForTheRunOnACallersThread) {
  Doubler::Shared shared;
  std::promise<InferAnswer> promise;
  auto scheduler = std::make_unique<Scheduler>(replicas(shared), everything_is_quick(), replicas(shared));
  (void)send_until_here(*scheduler, request({1}));
  shared.set_open(false);
  shared.stoppable = false;
  const int entered = shared.entered, left = shared.left;
  std::thread caller([&, used = scheduler.get()] {
    used->submit(
        request({2}), [&](InferAnswer&& answer) { promise.set_value(std::move(answer)); }, Here::allowed);
  });
  shared.wait_for_entered(entered + 1);
  std::thread opener([&] {
    std::this_thread::sleep_for(30ms);
    shared.set_open(true);
  });
  scheduler.reset();
  EXPECT_EQ(shared.left, left + 1);
  EXPECT_EQ(promise.get_future().get().error->code(), ErrorCode::interrupted);
  caller.join();
  opener.join();
}

// Many callers, replicas, deadlines and cancellations at once: each answer comes once and is the caller's own.
void load(SchedulerOptions options, std::int64_t widths) {
  Doubler::Shared shared;
  std::atomic<int> answers = 0, right = 0, accepted = 0;
  {
    options.max_queue = 64;
    Scheduler scheduler(replicas(shared, 2), options, replicas(shared, 2));
    std::vector<std::thread> callers;
    for (int thread = 0; thread < 4; ++thread) {
      callers.emplace_back([&, thread] {
        for (int i = 0; i < 2000; ++i) {
          const float value = static_cast<float>(100 + thread * 10000 + i);
          const Shape shape{1 + i % 3, 1 + i % widths};
          InferRequest next =
              request_of(shape, std::vector<float>(static_cast<std::size_t>(element_count(shape)), value));
          next.priority = i % 2;
          if (i % 7 == 0) next.deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(i % 200);
          try {
            const auto ticket = scheduler.submit(
                std::move(next),
                [&, value, shape](InferAnswer&& answer) {
                  ++answers;
                  const std::vector<float> all(static_cast<std::size_t>(element_count(shape)), 2 * value);
                  if (answer.error || values(answer) == all) ++right;
                },
                i % 2 == 0 ? Here::allowed : Here::no);
            ++accepted;
            if (i % 11 == 0) scheduler.cancel(ticket);
          } catch (const Error&) {
            std::this_thread::yield();
          }
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_TRUE(scheduler.close(std::chrono::steady_clock::now() + 20s));
    const SchedulerCounts counts = scheduler.counts();
    EXPECT_EQ(counts.waiting, 0U);
    EXPECT_EQ(counts.running, 0U);
    EXPECT_GT(counts.here, 0U);
  }
  EXPECT_GT(accepted, 0);
  EXPECT_EQ(answers, accepted);
  EXPECT_EQ(right, accepted);
}

TEST(Scheduler, EveryRequestIsAnsweredOnceUnderLoad) {
  load(everything_is_quick(), 1);
}

TEST(Scheduler, EveryRequestIsAnsweredOnceUnderLoadOfDifferentLengths) {
  SchedulerOptions options = everything_is_quick();
  options.padding = padding_of_x();
  options.batch.max_cost = 20;
  load(options, 5);
}

}  // namespace
}  // namespace gpux::runtime
