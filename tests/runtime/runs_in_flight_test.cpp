#include "runtime/scheduling/runs_in_flight.h"

#include <gtest/gtest.h>

namespace gpux::runtime {
namespace {

TEST(RunsInFlight, AreTwoWhereCopiesCanOverlap) {
  struct Case {
    FlightFacts facts;
    unsigned count;
    const char* reason;
  };

  for (const Case& row : {
           Case{{.can_overlap = false, .computing = 1, .requested = {}}, 1, ""},
           Case{{.can_overlap = false, .computing = 4, .requested = {}}, 4, ""},
           Case{{.can_overlap = false, .computing = 1, .requested = 1}, 1, ""},
           Case{{.can_overlap = false, .computing = 1, .requested = 3},
                1,
                "1 in flight: inputs and outputs are copied within the runs"},
           Case{{.can_overlap = true, .computing = 1, .requested = {}},
                2,
                "2 runs in flight: 1 computing, the others copying inputs or outputs"},
           Case{{.can_overlap = true, .computing = 1, .requested = 1}, 1, ""},
           Case{{.can_overlap = true, .computing = 1, .requested = 3},
                3,
                "3 runs in flight: 1 computing, the others copying inputs or outputs"},
           Case{{.can_overlap = true, .computing = 4, .requested = {}}, 4, ""},
           Case{{.can_overlap = true, .computing = 4, .requested = 2}, 4, ""},
           Case{{.can_overlap = true, .computing = 1, .requested = 99},
                max_runs_in_flight,
                "16 runs in flight: 1 computing, the others copying inputs or outputs"},
           Case{{.can_overlap = true, .computing = 64, .requested = {}}, 64, ""},
       }) {
    const RunsInFlight decided = decide_runs_in_flight(row.facts);
    EXPECT_EQ(decided.count, row.count);
    EXPECT_EQ(decided.reason, row.reason);
  }
}

}  // namespace
}  // namespace gpux::runtime
