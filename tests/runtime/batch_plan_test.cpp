#include "runtime/scheduling/batch_plan.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>

namespace gpux::runtime {
namespace {

using namespace std::chrono_literals;

const std::chrono::steady_clock::time_point start{1h};

// Sizes of rows: one input of this length, and the like.
const std::vector<Shape> three{{3}}, five{{5}}, six{{6}}, nine{{9}}, thirty{{30}}, three_and_nine{{3}, {9}}, empty{{0}};
const std::vector<Shape> high{{1000, 1}}, wide{{1, 1000}}, a_bit_high{{2, 1}}, a_bit_wide{{1, 2}};
const std::int64_t huge = std::int64_t{1} << 40;
const std::vector<Shape> hugely_high{{huge, 1}}, hugely_wide{{1, huge}};

struct Case {
  const char* what;
  std::vector<WaitingRequest> waiting;
  BatchLimits limits;
  bool replica_is_free;
  std::vector<std::size_t> take;
  bool waits = false;
};

TEST(BatchPlan, TakesRequestsUpToItsLimitsOrWaitsForThem) {
  const BatchLimits four{.max_rows = 4, .max_delay = 0us, .look_ahead = 3};
  const BatchLimits patient{.max_rows = 4, .max_delay = 5ms, .look_ahead = 3};
  const BatchLimits cheap{.max_rows = 8, .max_delay = 0us, .look_ahead = 8, .max_cost = 24};
  const BatchLimits cheap_and_patient{.max_rows = 8, .max_delay = 5ms, .look_ahead = 8, .max_cost = 24};
  const BatchLimits cheaper{.max_rows = 8, .max_delay = 0us, .look_ahead = 8, .max_cost = 17};
  const BatchLimits packed{.max_rows = 8, .max_delay = 0us, .look_ahead = 8, .max_cost = 17, .counts_padding = false};
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
      {"no more elements than allowed",
       {{"a", 1, start, six}, {"a", 2, start, six}, {"a", 2, start, six}, {"a", 1, start, six}, {"a", 1, start, six}},
       cheap,
       true,
       {0, 1, 3}},
      {"the largest input counts",
       {{"a", 1, start, three_and_nine}, {"a", 1, start, three_and_nine}, {"a", 1, start, three_and_nine}},
       cheap,
       true,
       {0, 1}},
      {"padding counts: a long one is passed over, a short one behind it is not",
       {{"a", 1, start, three}, {"a", 1, start, nine}, {"a", 1, start, three}},
       cheaper,
       true,
       {0, 2}},
      {"a long one joins where all rows of its length fit",
       {{"a", 1, start, three}, {"a", 1, start, nine}, {"a", 1, start, three}},
       cheap,
       true,
       {0, 1}},
      {"short ones are as long as the first", {{"a", 1, start, nine}, {"a", 1, start, three}}, cheaper, true, {0}},
      {"what has joined makes the next ones longer",
       {{"a", 1, start, three}, {"a", 1, start, six}, {"a", 2, start, three}, {"a", 1, start, three}},
       cheaper,
       true,
       {0, 1}},
      {"where padding costs nothing, each row counts what it has",
       {{"a", 1, start, three}, {"a", 1, start, nine}, {"a", 2, start, three}, {"a", 1, start, three}},
       packed,
       true,
       {0, 1, 3}},
      {"and a run is full when it has as much as it may",
       {{"a", 1, start, nine}, {"a", 1, start, five}, {"a", 1, start, three}},
       packed,
       false,
       {0, 1, 2}},
      {"and not before", {{"a", 1, start, nine}, {"a", 1, start, five}}, packed, false, {}},
      {"without a budget any length does",
       {{"a", 1, start, three}, {"a", 1, start, thirty}, {"a", 2, start, three}},
       four,
       true,
       {0, 1, 2}},
      {"too many elements of one's own go alone", {{"a", 1, start, thirty}, {"a", 1, start, three}}, cheap, true, {0}},
      {"and are prepared meanwhile", {{"a", 1, start, thirty}, {"a", 1, start, three}}, cheap, false, {0}},
      {"full by elements, it is prepared meanwhile",
       {{"a", 2, start, six}, {"a", 2, start, six}},
       cheap,
       false,
       {0, 1}},
      {"it is full where not one row more would fit",
       {{"a", 2, start, five}, {"a", 2, start, five}},
       cheap,
       false,
       {0, 1}},
      {"and not before", {{"a", 2, start, five}, {"a", 1, start, five}}, cheap, false, {}},
      {"full by elements, it waits no longer",
       {{"a", 2, start, six}, {"a", 2, start, six}},
       cheap_and_patient,
       true,
       {0, 1}},
      {"short of that it does", {{"a", 2, start, six}, {"a", 1, start, six}}, cheap_and_patient, true, {}, true},
      {"rows of nothing are never full", {{"a", 2, start, empty}, {"a", 2, start, empty}}, cheap, false, {}},
      {"lengths in different dimensions make no giant",
       {{"a", 1, start, high}, {"a", 1, start, wide}},
       four,
       true,
       {0}},
      {"small differences do not matter",
       {{"a", 1, start, a_bit_high}, {"a", 1, start, a_bit_wide}},
       four,
       true,
       {0, 1}},
      {"nor is a number too large to count with",
       {{"a", 1, start, hugely_high}, {"a", 1, start, hugely_wide}, {"a", 1, start, hugely_high}},
       four,
       true,
       {0, 2}},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.what);
    const BatchPlan plan = plan_batch(row.waiting, row.limits, row.replica_is_free, now);
    EXPECT_EQ(plan.take, row.take);
    ASSERT_EQ(plan.wait_until.has_value(), row.waits);
    if (row.waits) EXPECT_EQ(*plan.wait_until, start + 5ms);
  }
}

TEST(FilledRows, AreFewSizes) {
  struct Case {
    std::int64_t rows, row_cost;
    BatchLimits limits;
    std::int64_t filled;
  };

  const BatchLimits of_device{.max_rows = 128, .max_cost = 8192, .fills_rows = true};
  const Case cases[] = {{1, 100, of_device, 1},
                        {2, 100, of_device, 2},
                        {3, 100, of_device, 4},
                        {5, 100, of_device, 8},
                        {33, 100, of_device, 64},
                        {64, 100, of_device, 64},
                        {65, 100, of_device, 81},  // as many as the cost allows
                        {81, 100, of_device, 81},
                        {100, 8, of_device, 128},
                        {128, 8, of_device, 128},
                        {3, 4000, of_device, 3},  // more than the cost allows: as it is
                        {200, 1, of_device, 200},
                        {3, 0, of_device, 4},
                        {9, 1, {.max_rows = 12, .fills_rows = true}, 12},
                        {3, 100, {.max_rows = 128, .max_cost = 8192}, 3}};
  for (const Case& one : cases) {
    EXPECT_EQ(filled_rows(one.rows, one.row_cost, one.limits), one.filled) << one.rows << " of " << one.row_cost;
  }
  // The sizes of all runs of one row cost.
  for (const std::int64_t cost : {4, 16, 100, 512, 8192}) {
    std::set<std::int64_t> sizes;
    for (std::int64_t rows = 1; rows <= std::min<std::int64_t>(128, 8192 / cost); ++rows) {
      const std::int64_t filled = filled_rows(rows, cost, of_device);
      EXPECT_GE(filled, rows);
      EXPECT_LE(filled * cost, 8192);
      sizes.insert(filled);
    }
    EXPECT_LE(sizes.size(), 9U) << cost;
  }
}

}  // namespace
}  // namespace gpux::runtime
