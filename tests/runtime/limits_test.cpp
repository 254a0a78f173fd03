#include <gmock/gmock.h>
#include <sched.h>

#include "scenario.h"

namespace gpux {
namespace {

class Threads : public Scenario {
 protected:
  int threads(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), model("split"));
    arguments.emplace_back("infer");
    return run(arguments)["threads"].get<int>();
  }
};

// The processors that this process may use, put to `count`, and back at the end.
class Processors {
 public:
  explicit Processors(int count) {
    ::sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t fewer;
    CPU_ZERO(&fewer);
    for (int i = 0; i < CPU_SETSIZE && count > 0; ++i) {
      if (!CPU_ISSET(i, &before_)) continue;
      CPU_SET(i, &fewer);
      --count;
    }
    ::sched_setaffinity(0, sizeof(fewer), &fewer);
  }

  ~Processors() { ::sched_setaffinity(0, sizeof(before_), &before_); }

  Processors(const Processors&) = delete;
  Processors& operator=(const Processors&) = delete;

  [[nodiscard]] int before() const { return CPU_COUNT(&before_); }

 private:
  cpu_set_t before_{};
};

// ONNX Runtime has threads of its own besides those that compute: only the difference counts.
TEST_F(Threads, AreAsManyAsRequested) {
  const int one = threads({"--threads", "1"});
  EXPECT_EQ(threads({"--threads", "4"}), one + 3);
}

TEST_F(Threads, FollowTheProcessorsOfTheProcess) {
  const int one = threads({"--threads", "1"});
  const auto threads_on = [&](int processors) {
    const Processors limited(processors);
    return threads({"--threads", "default"});
  };
  EXPECT_EQ(threads_on(1), one);
  if (Processors(1).before() < 2) GTEST_SKIP() << "this process may use one processor only";
  EXPECT_EQ(threads_on(2), one + 1);
}

class Memory : public Scenario {};

TEST_F(Memory, IsHeldAgainstItsLimitWhereItCanBeMeasured) {
  EXPECT_THAT(
      error_of(run({model("split"), "--memory", "1000"})),
      testing::MatchesRegex("resource_exhausted: the model takes [0-9.]+ MB of memory after loading and one run, "
                            "more than the 1.0 kB allowed"));
  EXPECT_EQ(run({model("split"), "--memory", "100000000000"})["verdict"]["notes"], nlohmann::json::array());
}

}  // namespace
}  // namespace gpux
