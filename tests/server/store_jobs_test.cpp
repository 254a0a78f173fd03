#include "server/store_changes/store_jobs.h"

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cancellation.h"
#include "base/eventually.h"

namespace gpux::server {
namespace {

using testing::HasSubstr;

/// A listener that keeps what it hears.
struct Heard {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::promise<std::optional<Error>> end;

  StoreJobs::Listener listener() {
    return {.progress =
                [this](const JobStatus& status) {
                  const std::lock_guard lock(mutex);
                  lines.push_back(status.text);
                },
            .ended = [this](const std::optional<Error>& failure) { end.set_value(failure); }};
  }
};

StoreJobs::Work until_stopped() {
  return [](const std::stop_token& stop, const StoreJobs::Tell& tell) {
    tell({.text = "begun"});
    while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Cancellation(stop).check();
  };
}

const JobCounts& pulls(const StoreJobs& jobs) {
  return jobs.counts().at(static_cast<std::size_t>(JobKind::pull));
}

TEST(StoreJobs, TellHowFarTheyAreAndHowTheyEnd) {
  Heard good, bad;
  StoreJobs jobs(2);
  (void)jobs.start(
      JobKind::pull, "a", [](const auto&, const StoreJobs::Tell& tell) { tell({.text = "half"}); }, good.listener());
  EXPECT_FALSE(good.end.get_future().get().has_value());
  EXPECT_EQ(good.lines, std::vector<std::string>{"half"});
  (void)jobs.start(
      JobKind::pull, "b", [](const auto&, const auto&) { throw Error(ErrorCode::network, "gone"); }, bad.listener());
  const auto failure = bad.end.get_future().get();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code(), ErrorCode::network);
  EXPECT_EQ(pulls(jobs).succeeded, 1U);
  EXPECT_EQ(pulls(jobs).failed, 1U);
}

TEST(StoreJobs, AreOneForARequest) {
  Heard first, second;
  StoreJobs jobs(1);
  const auto one = jobs.start(JobKind::pull, "a", until_stopped(), first.listener());
  EXPECT_TRUE(test::eventually([&] {
    const std::lock_guard lock(first.mutex);
    return !first.lines.empty();
  }));
  const auto other = jobs.start(
      JobKind::pull, "a", [](const auto&, const auto&) { FAIL() << "a second job"; }, second.listener());
  EXPECT_EQ(second.lines, std::vector<std::string>{"begun"}) << "who joins learns how far it is";
  EXPECT_EQ(pulls(jobs).running, 1U);
  // It goes on for the one who stays.
  jobs.leave(one);
  EXPECT_EQ(second.end.get_future().wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  jobs.leave(other);
  EXPECT_TRUE(test::eventually([&] { return pulls(jobs).cancelled == 1U; }));
}

// A listener may ask for the same again as soon as the end is reported to it.
TEST(StoreJobs, AreNotJoinedWhenTheyAreDone) {
  std::promise<void> again, finished;
  std::promise<std::optional<Error>> end;
  StoreJobs jobs(1);  // waits for its threads, which use these, before they are gone
  (void)jobs.start(JobKind::pull, "a", [](const auto&, const auto&) {},
                   {.progress = [](const JobStatus&) {},
                    .ended =
                        [&](const std::optional<Error>&) {
                          again.set_value();
                          finished.get_future().wait();
                        }});
  again.get_future().wait();
  (void)jobs.start(JobKind::pull, "a", [](const auto&, const auto&) {},
                   {.progress = [](const JobStatus&) {},
                    .ended = [&](const std::optional<Error>& failure) { end.set_value(failure); }});
  EXPECT_FALSE(end.get_future().get().has_value());
  finished.set_value();
}

TEST(StoreJobs, AreAFewAtATime) {
  Heard first, second, third;
  StoreJobs jobs(1);
  const auto one = jobs.start(JobKind::pull, "a", until_stopped(), first.listener());
  try {
    (void)jobs.start(JobKind::push, "a", until_stopped(), second.listener());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    EXPECT_THAT(error.message(), HasSubstr("1 models are being pulled, pushed or created, which is the maximum"));
  }
  EXPECT_EQ(jobs.counts().at(1).refused, 1U);
  jobs.leave(one);
  EXPECT_TRUE(test::eventually([&] {
    try {
      (void)jobs.start(
          JobKind::pull, "c", [](const auto&, const auto&) {}, third.listener());
      return true;
    } catch (const Error&) {
      return false;
    }
  }));
  EXPECT_FALSE(third.end.get_future().get().has_value());
}

// Another one of that name may be of other files.
TEST(StoreJobs, OfOneNameAreNotCreatedTogether) {
  Heard first, second, third;
  StoreJobs jobs(3);
  const auto one = jobs.start(JobKind::create, "a", until_stopped(), first.listener());
  const auto is_refused = [&](Heard& heard) {
    try {
      (void)jobs.start(
          JobKind::create, "a", [](const auto&, const auto&) {}, heard.listener());
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
      EXPECT_THAT(error.message(), HasSubstr("'a' is being created by another request"));
      return true;
    }
  };
  EXPECT_TRUE(is_refused(second));
  EXPECT_EQ(jobs.counts().at(2).refused, 1U);
  jobs.leave(one);
  EXPECT_TRUE(test::eventually([&] { return !is_refused(third); }));
  EXPECT_FALSE(third.end.get_future().get().has_value());
}

TEST(StoreJobs, OfOtherRequestsAreNotJoined) {
  Heard first, second;
  StoreJobs jobs(2);
  (void)jobs.start(JobKind::pull, "org/a@one", until_stopped(), first.listener());
  (void)jobs.start(
      JobKind::pull, "org/a@two", [](const auto&, const auto&) {}, second.listener());
  EXPECT_FALSE(second.end.get_future().get().has_value()) << "it has its own work";
  EXPECT_EQ(pulls(jobs).running, 1U);
}

TEST(StoreJobs, EndWithTheServer) {
  Heard heard;
  StoreJobs jobs(1);
  (void)jobs.start(JobKind::create, "a", until_stopped(), heard.listener());
  jobs.stop();
  const auto failure = heard.end.get_future().get();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code(), ErrorCode::interrupted);
  EXPECT_THROW((void)jobs.start(JobKind::create, "b", until_stopped(), {}), Error);
}

}  // namespace
}  // namespace gpux::server
