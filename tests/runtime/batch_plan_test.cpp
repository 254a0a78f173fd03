#include "runtime/batch_plan.h"

#include <gmock/gmock.h>

namespace gpux::runtime {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

const std::chrono::steady_clock::time_point start{1h};

struct Case {
  const char* what;
  std::vector<WaitingRequest> waiting;
  BatchLimits limits;
  bool replica_is_free;
  std::vector<std::size_t> take;
  bool waits = false;
};

TEST(BatchPlan, Table) {
  const BatchLimits four{.max_rows = 4, .max_delay = 0us, .look_ahead = 3};
  const BatchLimits patient{.max_rows = 4, .max_delay = 5ms, .look_ahead = 3};
  const auto now = start + 2ms;
  const std::vector<Case> cases{
      {"nothing waits", {}, four, true, {}},
      {"one goes at once", {{"a", 1, start}}, four, true, {0}},
      {"equal shapes share a run", {{"a", 1, start}, {"a", 2, start}}, four, true, {0, 1}},
      {"another shape in between stays", {{"a", 1, start}, {"b", 1, start}, {"a", 1, start}}, four, true, {0, 2}},
      {"the oldest goes, however rare its shape", {{"b", 1, start}, {"a", 1, start}, {"a", 1, start}}, four, true, {0}},
      {"no more rows than allowed", {{"a", 3, start}, {"a", 2, start}, {"a", 1, start}}, four, true, {0, 2}},
      {"too many rows of one's own go alone", {{"a", 9, start}, {"a", 1, start}}, four, true, {0}},
      {"what shares no run goes alone", {{"", 1, start}, {"", 1, start}}, four, true, {0}},
      {"no further than the look-ahead",
       {{"a", 1, start}, {"b", 1, start}, {"b", 1, start}, {"b", 1, start}, {"a", 1, start}},
       four,
       true,
       {0}},
      {"an empty request costs no rows", {{"a", 4, start}, {"a", 0, start}}, four, true, {0}},
      {"without a replica a batch may still grow", {{"a", 1, start}, {"a", 2, start}}, four, false, {}},
      {"a full one is prepared meanwhile", {{"a", 2, start}, {"a", 2, start}}, four, false, {0, 1}},
      {"a lone one is prepared meanwhile", {{"", 1, start}}, four, false, {0}},
      {"the oldest waits for company", {{"a", 1, start}}, patient, true, {}, true},
      {"but not when full", {{"a", 2, start}, {"a", 2, start}}, patient, true, {0, 1}},
      {"and not longer than allowed", {{"a", 1, start - 3ms}, {"a", 1, start}}, patient, true, {0, 1}},
      {"nor where it can have none", {{"", 1, start}}, patient, true, {0}},
      {"one row at a time is no batching", {{"a", 1, start}, {"a", 1, start}}, {.max_rows = 1}, true, {0}},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.what);
    const BatchPlan plan = plan_batch(row.waiting, row.limits, row.replica_is_free, now);
    EXPECT_EQ(plan.take, row.take);
    ASSERT_EQ(plan.wait_until.has_value(), row.waits);
    if (row.waits) EXPECT_EQ(*plan.wait_until, start + 5ms);
  }
}

}  // namespace
}  // namespace gpux::runtime
