// Who reads and prepares long requests, in which order, and how that ends early.
#include "server/requests/request_readers.h"

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <mutex>
#include <new>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::server {
namespace {

using testing::ElementsAre;
using Clock = Cancellation::Clock;

/// Keeps a thread of the readers busy until it is told to go on.
class Obstacle {
 public:
  RequestReaders::Task task(std::uint64_t cost = 0) {
    return {.cancellation = {},
            .cost = cost,
            .unit =
                [this] {
                  met_.count_down();
                  gone_.wait();
                  return false;
                },
            .failed = [](const Error&) {},
            .is_admitted = true};
  }

  void wait_until_met() { met_.wait(); }

  void remove() { gone_.count_down(); }

 private:
  std::latch met_{1}, gone_{1};
};

struct Record {
  std::mutex mutex;
  std::vector<std::string> units;
  std::vector<ErrorCode> failures;
  std::promise<void> over;

  /// `units` of that name, then the end.
  RequestReaders::Task task(const std::string& name, int count, const Cancellation& cancellation = {},
                            std::uint64_t cost = 0, bool is_last = false) {
    return {.cancellation = cancellation,
            .cost = cost,
            .unit =
                [this, name, left = count, is_last]() mutable {
                  const std::lock_guard lock(mutex);
                  units.push_back(name);
                  if (--left == 0 && is_last) over.set_value();
                  return left != 0;
                },
            .failed =
                [this, is_last](const Error& error) {
                  const std::lock_guard lock(mutex);
                  failures.push_back(error.code());
                  if (is_last) over.set_value();
                },
            .is_admitted = false};
  }
};

TEST(RequestReaders, TakeTurnsAUnitAtATime) {
  Record record;
  Obstacle obstacle;
  {
    RequestReaders readers({.threads = 1});
    readers.post(obstacle.task());
    obstacle.wait_until_met();
    readers.post(record.task("a", 3));
    readers.post(record.task("b", 2));
    readers.post(record.task("c", 4, {}, 0, true));
    obstacle.remove();
    record.over.get_future().get();
  }
  EXPECT_THAT(record.units, ElementsAre("a", "b", "c", "a", "b", "c", "a", "c", "c"));
  EXPECT_THAT(record.failures, ElementsAre());
}

TEST(RequestReaders, DropWhatNobodyWaitsForBeforeItBegins) {
  Record record;
  Obstacle obstacle;
  std::stop_source left;
  {
    RequestReaders readers({.threads = 1});
    readers.post(obstacle.task());
    obstacle.wait_until_met();
    readers.post(record.task("left", 1, Cancellation(left.get_token())));
    readers.post(record.task("late", 1, Cancellation({}, Clock::now() - std::chrono::seconds(1))));
    readers.post(record.task("kept", 1, {}, 0, true));
    left.request_stop();
    obstacle.remove();
    record.over.get_future().get();
  }
  EXPECT_THAT(record.units, ElementsAre("kept"));
  EXPECT_THAT(record.failures, ElementsAre(ErrorCode::interrupted, ErrorCode::deadline_exceeded));
}

TEST(RequestReaders, AClientThatLeavesCostsNoMoreThanAUnit) {
  std::atomic<int> units = 0;
  std::promise<ErrorCode> over;
  std::stop_source left;
  RequestReaders readers({.threads = 1});
  readers.post({.cancellation = Cancellation(left.get_token()),
                .cost = 0,
                .unit =
                    [&] {
                      if (++units == 3) left.request_stop();
                      return true;
                    },
                .failed = [&](const Error& error) { over.set_value(error.code()); }});
  EXPECT_EQ(over.get_future().get(), ErrorCode::interrupted);
  EXPECT_EQ(units, 3);
}

TEST(RequestReaders, EndWithTheirUnitsAndDropTheRest) {
  Record record;
  Obstacle obstacle;
  std::promise<ErrorCode> over;
  RequestReaders readers({.threads = 1});
  RequestReaders::Task running = obstacle.task();
  // It would go on for ever.
  running.unit = [unit = running.unit] {
    (void)unit();
    return true;
  };
  running.failed = [&](const Error& error) { over.set_value(error.code()); };
  readers.post(running);
  obstacle.wait_until_met();
  readers.post(record.task("waiting", 1));
  EXPECT_EQ(readers.waiting(), 1U);
  readers.stop();
  EXPECT_THAT(record.failures, ElementsAre(ErrorCode::interrupted));
  obstacle.remove();
  EXPECT_EQ(over.get_future().get(), ErrorCode::interrupted);
  EXPECT_THAT(record.units, ElementsAre());
  try {
    readers.post(record.task("later", 1));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::interrupted);
  }
}

TEST(RequestReaders, StopAnswersThoseInProgressThatAllowIt) {
  Obstacle obstacle;
  std::vector<ErrorCode> failures;
  RequestReaders readers({.threads = 1});
  RequestReaders::Task running = obstacle.task();
  running.failed = [&](const Error& error) { failures.push_back(error.code()); };
  running.may_fail_beside_unit = true;
  readers.post(std::move(running));
  obstacle.wait_until_met();
  readers.stop();
  // Its unit still waits for the obstacle.
  EXPECT_THAT(failures, ElementsAre(ErrorCode::interrupted));
  obstacle.remove();
}

TEST(RequestReaders, RefuseNewWorkWhereTooMuchWaits) {
  Record record;
  Obstacle obstacle;
  {
    RequestReaders readers({.threads = 1, .max_tasks = 2});
    readers.post(obstacle.task());
    obstacle.wait_until_met();
    readers.post(record.task("a", 1));
    readers.post(record.task("b", 1));
    try {
      readers.post(record.task("c", 1));
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    }
    RequestReaders::Task admitted = record.task("d", 1, {}, 0, true);
    admitted.is_admitted = true;
    readers.post(admitted);
    obstacle.remove();
    record.over.get_future().get();
  }
  EXPECT_THAT(record.units, ElementsAre("a", "b", "d"));
}

TEST(RequestReaders, LeaveAThreadToLightWork) {
  Record record;
  Obstacle first;
  RequestReaders readers({.threads = 2, .heavy_cost = 100});
  readers.post(first.task(101));
  first.wait_until_met();
  readers.post(record.task("heavy", 1, {}, 101));
  // Time to begin it, where a thread would.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(readers.waiting(), 1U);
  readers.post(record.task("light", 1, {}, 100, true));
  record.over.get_future().get();
  {
    const std::lock_guard lock(record.mutex);
    EXPECT_THAT(record.units, ElementsAre("light"));
  }
  first.remove();
}

TEST(RequestReaders, ATaskEndsWithWhatItsUnitThrows) {
  RequestReaders readers({.threads = 1});
  const auto failure_of = [&](std::function<bool()> unit) {
    std::promise<ErrorCode> failed;
    readers.post({.cancellation = {}, .cost = 0, .unit = std::move(unit), .failed = [&](const Error& error) {
                    failed.set_value(error.code());
                  }});
    return failed.get_future().get();
  };
  EXPECT_EQ(failure_of([]() -> bool { throw Error(ErrorCode::invalid_input, "x"); }), ErrorCode::invalid_input);
  EXPECT_EQ(failure_of([]() -> bool { throw std::bad_alloc(); }), ErrorCode::resource_exhausted);
  EXPECT_EQ(failure_of([]() -> bool { throw std::runtime_error("x"); }), ErrorCode::internal);
}

}  // namespace
}  // namespace gpux::server
