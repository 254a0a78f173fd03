#include "runtime/scheduling/device_health.h"

#include <vector>

#include <gtest/gtest.h>

#include "runtime/scheduling/replica_choice.h"

namespace gpux::runtime {
namespace {

using namespace std::chrono_literals;
using Time = DeviceHealth::Time;

TEST(RunFailure, IsTheDevicesOnlyWhereTheErrorIsAboutIt) {
  struct Row {
    ErrorCode code;
    const char* text;
    bool is_about_a_device;
    bool has_lost_its_worker;
    RunFailure expected;
  };

  for (const Row& row : std::vector<Row>{
           {ErrorCode::provider_unavailable, "EP_FAIL : the provider failed", false, false, RunFailure::suspected},
           {ErrorCode::internal, "RUNTIME_EXCEPTION", false, false, RunFailure::suspected},
           {ErrorCode::provider_unavailable, "CUDA failure 700: an illegal memory access was encountered ; GPU=1", true,
            false, RunFailure::lost},
           {ErrorCode::internal, "WebGPU: Device lost", true, false, RunFailure::lost},
           {ErrorCode::internal, "the worker of 'm' was ended by signal 11", false, true, RunFailure::lost},
           {ErrorCode::resource_exhausted, "out of memory", false, false, RunFailure::memory},
           // It may quote what a client sent.
           {ErrorCode::invalid_input, "'Device lost' is no number", false, false, RunFailure::request},
           {ErrorCode::deadline_exceeded, "the deadline passed", false, false, RunFailure::request},
           {ErrorCode::internal, "its words alone: device lost", false, false, RunFailure::suspected},
           {ErrorCode::interrupted, "stopped", false, false, RunFailure::request}}) {
    const Error error = row.is_about_a_device ? Error(row.code, {.kind = Subject::Kind::device, .name = {}}, row.text)
                                              : Error(row.code, row.text);
    EXPECT_EQ(run_failure(error, row.has_lost_its_worker), row.expected) << row.text;
  }
}

TEST(TrialDelay, DoublesUpToItsBound) {
  const TrialDelays delays{.first = 250ms, .max = 3s, .calm = 60s};
  EXPECT_EQ(trial_delay(1, delays), 250ms);
  EXPECT_EQ(trial_delay(2, delays), 500ms);
  EXPECT_EQ(trial_delay(4, delays), 2s);
  EXPECT_EQ(trial_delay(5, delays), 3s);
  EXPECT_EQ(trial_delay(4'000'000'000U, delays), 3s);
}

// Each row: what happens to a device at a second, and how it is then.
struct Step {
  enum class Event : std::uint8_t {
    fails,
    fails_alone,
    lost,
    bad_input,
    works_elsewhere,
    fails_elsewhere,
    trial_works,
    trial_fails,
    delay_ends
  };
  Event event;
  int second;
  DeviceState state;
  int trial_ms = -1;  ///< due so long after the event; -1: none
};

void expect_life(DeviceHealth health, const std::vector<Step>& steps) {
  using enum Step::Event;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    SCOPED_TRACE(i);
    const Step& step = steps[i];
    const Time now = Time() + 1000s + std::chrono::seconds(step.second);
    switch (step.event) {
      case fails:
        health.failed(RunFailure::suspected, "reason", true, now);
        break;
      case fails_alone:
        health.failed(RunFailure::suspected, "reason", false, now);
        break;
      case lost:
        health.failed(RunFailure::lost, "reason", true, now);
        break;
      case bad_input:
        health.failed(RunFailure::request, "bad", false, now);
        break;
      case works_elsewhere:
        health.elsewhere(true, health.suspicion(), now);
        break;
      case fails_elsewhere:
        health.elsewhere(false, health.suspicion(), now);
        break;
      case trial_works:
        health.begin_trial();
        EXPECT_FALSE(health.trial_due()) << "one at a time";
        health.end_trial(std::nullopt, now);
        break;
      case trial_fails:
        health.begin_trial();
        health.end_trial("trial", now);
        EXPECT_EQ(health.reason(), "trial");
        break;
      case delay_ends:
        EXPECT_EQ(health.end_delay(now), step.state == DeviceState::in_service);
        break;
    }
    EXPECT_EQ(health.state(), step.state) << to_string(health.state());
    EXPECT_EQ(health.takes_requests(), step.state == DeviceState::in_service);
    const auto due = health.trial_due();
    ASSERT_EQ(due.has_value(), step.trial_ms >= 0);
    if (due) {
      EXPECT_EQ(*due - now, std::chrono::milliseconds(step.trial_ms));
    }
  }
}

TEST(DeviceHealth, LeavesAndReturnsToServiceByItsRunsAndTrials) {
  using enum Step::Event;
  using enum DeviceState;
  const DeviceHealth health({.first = 1s, .max = 4s, .calm = 60s});
  // The input's fault: nothing happens.
  expect_life(health, {{bad_input, 0, in_service}});
  // The request worked elsewhere, so it is the device; each failed trial doubles the delay; it comes back.
  expect_life(health, {{fails, 0, suspected},
                       {works_elsewhere, 1, out, 1000},
                       {trial_fails, 2, out, 2000},
                       {trial_fails, 4, out, 4000},
                       {trial_fails, 8, out, 4000},
                       {trial_works, 12, in_service},
                       // Again within a minute, then after more than one.
                       {lost, 13, out, 4000},
                       {trial_works, 20, in_service},
                       {lost, 100, out, 1000}});
  // It failed elsewhere too: a trial run tells, at once.
  expect_life(health, {{fails, 0, suspected}, {fails_elsewhere, 1, checking, 0}, {trial_works, 1, in_service}});
  expect_life(health, {{fails, 0, suspected}, {fails_elsewhere, 1, checking, 0}, {trial_fails, 1, out, 1000}});
  // It could not run elsewhere.
  expect_life(health, {{fails_alone, 0, checking, 0}, {trial_works, 1, in_service}});
  // More runs of the same device fail while it is known.
  expect_life(health, {{fails, 0, suspected}, {fails, 0, suspected}, {works_elsewhere, 0, out, 1000}});
  expect_life(health, {{lost, 0, out, 1000}, {fails, 0, out, 1000}, {works_elsewhere, 0, out, 1000}});
  expect_life(health, {{fails, 0, suspected}, {lost, 0, out, 1000}, {fails_elsewhere, 0, out, 1000}});
}

// The next request is the trial.
TEST(DeviceHealth, WithoutTrialRunsIsBackAfterItsDelay) {
  using enum Step::Event;
  using enum DeviceState;
  const DeviceHealth health({.first = 2s, .max = 4s, .calm = 60s}, false);
  expect_life(health, {{lost, 0, out, 2000},
                       {delay_ends, 2, in_service},
                       {fails, 3, suspected},
                       {works_elsewhere, 3, out, 4000},
                       {delay_ends, 7, in_service},
                       {fails_alone, 7, in_service}});
}

// Answers about an earlier suspicion come late.
TEST(DeviceHealth, KnowsWhichSuspicionIsAnswered) {
  DeviceHealth health;
  const Time now = Time() + 1000s;
  health.failed(RunFailure::suspected, "first", true, now);
  const std::uint64_t first = health.suspicion();
  health.check(now);
  health.begin_trial();
  health.end_trial(std::nullopt, now);
  health.failed(RunFailure::suspected, "second", true, now);
  health.elsewhere(true, first, now);
  EXPECT_EQ(health.state(), DeviceState::suspected);
  health.elsewhere(true, health.suspicion(), now);
  EXPECT_EQ(health.state(), DeviceState::out);
  EXPECT_EQ(health.failures(), 1U);
  EXPECT_EQ(health.reason(), "second");
}

TEST(ReplicaChoice, TakesTheDeviceWithTheFewestRunsThenTheFastest) {
  struct Row {
    std::vector<FreeReplica> free;
    std::size_t expected;
  };

  for (const Row& row : std::vector<Row>{{{{0, 5ns}}, 0},
                                         {{{1, 1ns}, {0, 90ns}}, 1},
                                         {{{0, 90ns}, {1, 1ns}}, 0},
                                         {{{0, 90ns}, {0, 20ns}, {0, 50ns}}, 1},
                                         {{{0, 20ns}, {0, 0ns}, {0, 50ns}}, 1},
                                         {{{0, 20ns}, {0, 20ns}}, 1}}) {
    EXPECT_EQ(choose_replica(row.free), row.expected);
  }
}

}  // namespace
}  // namespace gpux::runtime
