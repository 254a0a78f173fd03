// Replicas on several devices, of which some fail or are slow.
#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>

#include "runtime/scheduling/scheduler.h"

namespace gpux::runtime {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// A device that doubles its input.
struct Made {
  std::atomic<bool> is_broken = false;
  std::atomic<bool> is_away = false;  // runs fail, and trial runs wait for it
  std::atomic<int> runs = 0, failed = 0, trials = 0;
  std::chrono::milliseconds delay{0};
  // A value of -1 makes every provider fail.
  ErrorCode code = ErrorCode::provider_unavailable;
};

class DeviceReplica : public Replica {
 public:
  DeviceReplica(Made& made, std::size_t device) : made_(made), device_(device) {}

  NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& /*outputs*/) override {
    const Tensor& input = *inputs[0].second.tensor();
    std::this_thread::sleep_for(made_.delay);
    ++made_.runs;
    const float value = input.as<float>()[0];
    if (made_.is_broken || made_.is_away || value == -1) {
      ++made_.failed;
      throw Error(made_.code, "device " + std::to_string(device_) + " does not answer");
    }
    if (value == -2) throw Error(ErrorCode::invalid_input, "-2 is no number to double");
    Tensor output = Tensor::allocate(ElementType::float32, input.shape());
    for (std::size_t i = 0; i < input.as<float>().size(); ++i) {
      output.mutable_as<float>()[i] = 2 * input.as<float>()[i];
    }
    NamedValues results;
    results.emplace_back("y", std::move(output));
    return results;
  }

  NamedValues run_trial(const NamedValues& inputs, const std::vector<std::size_t>& outputs) override {
    ++made_.trials;
    while (made_.is_away) std::this_thread::sleep_for(1ms);
    return run(inputs, outputs);
  }

  void stop() override {}

  [[nodiscard]] std::size_t device() const noexcept override { return device_; }

 private:
  Made& made_;
  std::size_t device_;
};

InferRequest request(float value) {
  const std::vector<float> values{value};
  return {.inputs = {{"x", Tensor::of<float>({1, 1}, values)}}, .outputs = {0}, .priority = 0, .deadline = {}};
}

class SeveralDevices : public testing::Test {
 protected:
  void start(std::size_t count, SchedulerOptions options = {}, bool with_trials = true) {
    made_ = std::vector<Made>(count);
    options.trial_delays = delays_;
    if (with_trials) options.trial = request(1);
    options_ = options;
  }

  Scheduler& scheduler() {
    if (!scheduler_) {
      std::vector<std::unique_ptr<Replica>> replicas;
      for (std::size_t i = 0; i < made_.size(); ++i) replicas.push_back(std::make_unique<DeviceReplica>(made_[i], i));
      scheduler_ = std::make_unique<Scheduler>(std::move(replicas), options_);
    }
    return *scheduler_;
  }

  std::future<InferAnswer> send(float value) {
    auto promise = std::make_shared<std::promise<InferAnswer>>();
    auto future = promise->get_future();
    (void)scheduler().submit(request(value),
                             [promise](InferAnswer&& answer) { promise->set_value(std::move(answer)); });
    return future;
  }

  void expect_answer(float value) {
    const InferAnswer answer = send(value).get();
    ASSERT_FALSE(answer.error) << answer.error->message();
    EXPECT_EQ(answer.outputs.at(0).second.tensor()->as<float>()[0], 2 * value);
  }

  // A state lasts until the test changes a device: only how long it takes to come is not known.
  void wait_for(std::size_t device, DeviceState state) {
    for (int i = 0; i < 20'000; ++i) {
      if (scheduler().devices()[device].state == state) return;
      std::this_thread::sleep_for(1ms);
    }
    FAIL() << device << " is " << to_string(scheduler().devices()[device].state);
  }

  TrialDelays delays_{.first = 5ms, .max = 20ms, .calm = 60s};
  std::vector<Made> made_;
  SchedulerOptions options_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SeveralDevices, LoseOneWithoutLosingARequest) {
  start(4);
  made_[1].is_broken = true;
  std::vector<std::future<InferAnswer>> answers;
  for (int i = 0; i < 200; ++i) answers.push_back(send(static_cast<float>(i)));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const InferAnswer answer = answers[i].get();
    ASSERT_FALSE(answer.error) << answer.error->message();
    EXPECT_EQ(answer.outputs.at(0).second.tensor()->as<float>()[0], 2 * static_cast<float>(i));
  }
  wait_for(1, DeviceState::out);
  const std::vector<DeviceReport> reports = scheduler().devices();
  EXPECT_EQ(reports[1].failures, 1U);
  EXPECT_THAT(reports[1].reason, HasSubstr("device 1 does not answer"));
  for (const std::size_t other : {0, 2, 3}) EXPECT_EQ(reports[other].state, DeviceState::in_service) << other;
  EXPECT_EQ(scheduler().counts().moved, 1U) << "it took no second request";
}

// As one whose worker process is being started: its requests do not wait for it, and the trial run does.
TEST_F(SeveralDevices, WaitForOneThatIsAwayInATrial) {
  start(2);
  made_[0].is_away = true;
  for (int i = 0; i < 20; ++i) expect_answer(3);
  wait_for(0, DeviceState::out);
  while (made_[0].trials == 0) std::this_thread::sleep_for(1ms);
  for (int i = 0; i < 20; ++i) expect_answer(4);
  EXPECT_EQ(made_[0].trials, 1);
  EXPECT_EQ(scheduler().counts().moved, 1U);
  made_[0].is_away = false;
  wait_for(0, DeviceState::in_service);
  EXPECT_EQ(made_[0].trials, 1);
}

TEST_F(SeveralDevices, ReturnAFailedDeviceToServiceAfterATrial) {
  start(2);
  made_[0].is_broken = true;
  for (int i = 0; i < 20; ++i) expect_answer(3);
  wait_for(0, DeviceState::out);
  made_[0].is_broken = false;
  wait_for(0, DeviceState::in_service);
  // Then it serves alone.
  made_[1].is_broken = true;
  for (int i = 0; i < 20; ++i) expect_answer(4);
  EXPECT_EQ(scheduler().devices()[0].failures, 1U);
}

TEST_F(SeveralDevices, StayWhereTheInputIsToBlame) {
  start(2);
  for (int i = 0; i < 10; ++i) {
    const InferAnswer answer = send(-1).get();
    ASSERT_TRUE(answer.error);
    EXPECT_EQ(answer.error->code(), ErrorCode::provider_unavailable);
    EXPECT_THAT(answer.error->message(), HasSubstr("does not answer"));
    expect_answer(5);
  }
  EXPECT_LE(made_[0].failed + made_[1].failed, 20) << "each at most twice";
  for (const DeviceReport& report : scheduler().devices()) EXPECT_EQ(report.failures, 0U);
  EXPECT_EQ(send(-2).get().error.value().code(), ErrorCode::invalid_input);
  EXPECT_LE(scheduler().counts().moved, 10U) << "a wrong value is not moved";
}

TEST_F(SeveralDevices, AnswerAtOnceWhereAllHaveFailed) {
  delays_ = {.first = 20s, .max = 20s, .calm = 60s};
  start(2);
  made_[0].is_broken = made_[1].is_broken = true;
  EXPECT_TRUE(send(1).get().error);
  wait_for(0, DeviceState::out);
  wait_for(1, DeviceState::out);
  try {
    (void)send(1);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::provider_unavailable);
    EXPECT_THAT(error.message(), HasSubstr("all devices of the model have failed (device 0: device 0 does not answer; "
                                           "device 1: device 1 does not answer); the next trial run is in "));
  }
}

TEST_F(SeveralDevices, AnswerWhatWaitsWhenTheLastFails) {
  delays_ = {.first = 20s, .max = 20s, .calm = 60s};
  start(2);
  for (Made& one : made_) {
    one.is_broken = true;
    one.delay = 20ms;
  }
  std::vector<std::future<InferAnswer>> answers;
  for (int i = 0; i < 50; ++i) {
    try {
      answers.push_back(send(1));
    } catch (const Error&) {
    }
  }
  for (auto& answer : answers) {
    EXPECT_EQ(answer.get().error.value().code(), ErrorCode::provider_unavailable);
  }
  EXPECT_LE(made_[0].runs + made_[1].runs, 6);
}

TEST_F(SeveralDevices, ReturnAfterADelayWithoutTrialRuns) {
  start(2, {}, false);
  made_[0].is_broken = true;
  for (int i = 0; i < 10; ++i) expect_answer(1);
  made_[0].is_broken = false;
  wait_for(0, DeviceState::in_service);
  expect_answer(2);
}

TEST_F(SeveralDevices, MoveAWholeBatch) {
  start(2, {.batch = {.max_rows = 8}, .can_batch = true});
  for (Made& one : made_) one.delay = 50ms;
  std::vector<std::future<InferAnswer>> answers;
  for (int i = 0; i < 2; ++i) answers.push_back(send(1));  // occupy both
  made_[1].is_broken = true;
  for (int i = 2; i < 18; ++i) answers.push_back(send(static_cast<float>(i)));
  for (auto& answer : answers) {
    const InferAnswer got = answer.get();
    EXPECT_FALSE(got.error) << got.error->message();
  }
  wait_for(1, DeviceState::out);
}

// The queue is one, so that no device waits while there is work.
TEST_F(SeveralDevices, GetWorkByTheirSpeed) {
  start(2);
  made_[0].delay = 2ms;
  made_[1].delay = 40ms;
  std::vector<std::future<InferAnswer>> answers;
  for (int i = 0; i < 100; ++i) answers.push_back(send(1));
  for (auto& answer : answers) EXPECT_FALSE(answer.get().error);
  EXPECT_GT(made_[0].runs, 3 * made_[1].runs);
  EXPECT_GE(made_[1].runs, 1) << "it does not stay idle while work waits";
  // One request at a time: the fast one gets it.
  const int slow = made_[1].runs;
  for (int i = 0; i < 10; ++i) expect_answer(1);
  EXPECT_EQ(made_[1].runs, slow);
}

TEST_F(SeveralDevices, ShutDownWhileADeviceIsOutOfService) {
  start(3);
  made_[2].is_broken = true;
  for (int i = 0; i < 30; ++i) expect_answer(1);
  EXPECT_TRUE(scheduler().close(std::chrono::steady_clock::now() + 10s));
  scheduler_.reset();
}

TEST(OneDevice, StaysInServiceAndCountsItsFailures) {
  Made made;
  std::vector<std::unique_ptr<Replica>> replicas;
  replicas.push_back(std::make_unique<DeviceReplica>(made, 0));
  Scheduler scheduler(std::move(replicas), {});
  const auto run = [&](float value) {
    std::promise<InferAnswer> promise;
    (void)scheduler.submit(request(value), [&](InferAnswer&& answer) { promise.set_value(std::move(answer)); });
    return promise.get_future().get();
  };
  made.is_broken = true;
  EXPECT_TRUE(run(1).error);
  made.is_broken = false;
  EXPECT_FALSE(run(1).error);
  const std::vector<DeviceReport> reports = scheduler.devices();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].state, DeviceState::in_service);
  EXPECT_EQ(reports[0].failures, 1U);
  EXPECT_THAT(reports[0].reason, HasSubstr("does not answer"));
  EXPECT_EQ(scheduler.counts().moved, 0U);
}

}  // namespace
}  // namespace gpux::runtime
