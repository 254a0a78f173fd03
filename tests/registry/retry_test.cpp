#include "registry/http/retry.h"

#include <vector>

#include <gtest/gtest.h>

namespace gpux::registry {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RetryDelay, FollowsTheTable) {
  const RetryPolicy policy{.max_attempts = 5,
                           .first_delay = milliseconds(100),
                           .max_delay = milliseconds(350),
                           .max_retry_after = seconds(9)};

  struct Row {
    Attempt attempt;
    double spread;
    std::optional<milliseconds> delay;
  };

  const std::vector<Row> rows{
      {{.number = 1, .status = 503}, 0, milliseconds(100)},
      {{.number = 2, .status = 503}, 0, milliseconds(200)},
      {{.number = 3, .status = 500}, 0, milliseconds(350)},
      {{.number = 3, .status = 500}, 1, milliseconds(175)},
      {{.number = 4, .status = 429}, 0, milliseconds(350)},
      {{.number = 5, .status = 503}, 0, std::nullopt},
      {{.number = 1, .status = 429, .retry_after = seconds(3)}, 1, milliseconds(3000)},
      {{.number = 1, .status = 429, .retry_after = seconds(10)}, 0, std::nullopt},
      {{.number = 1, .status = 404}, 0, std::nullopt},
      {{.number = 1, .status = 401, .retry_after = seconds(1)}, 0, std::nullopt},
      {{.number = 1, .status = 501}, 0, std::nullopt},
      {{.number = 1, .status = 0, .is_transient = true}, 0, milliseconds(100)},
      {{.number = 1, .status = 0, .is_transient = false}, 0, std::nullopt},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(retry_delay(policy, rows[i].attempt, rows[i].spread), rows[i].delay) << "row " << i;
  }
}

// A transfer that goes on counts from 1 again; one that begins anew each time, or creeps, does not.
TEST(ResumedAttempts, ForgiveProgressAlone) {
  struct Row {
    std::vector<std::uint64_t> bytes;
    std::vector<unsigned> numbers;
  };

  for (const Row& row : std::vector<Row>{{{200, 300, 400}, {1, 1, 1}},
                                         {{100, 100, 100}, {1, 2, 3}},
                                         {{500, 200, 500, 600}, {1, 2, 3, 1}},
                                         {{130, 160, 199, 201}, {1, 2, 3, 1}},
                                         {{0, 0}, {1, 2}}}) {
    ResumedAttempts attempts(100, 100);
    for (std::size_t i = 0; i < row.bytes.size(); ++i) EXPECT_EQ(attempts.failed_at(row.bytes[i]), row.numbers[i]) << i;
  }
}

}  // namespace
}  // namespace gpux::registry
