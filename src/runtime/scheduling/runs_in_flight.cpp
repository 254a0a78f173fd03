#include "runtime/scheduling/runs_in_flight.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpux::runtime {

RunsInFlight decide_runs_in_flight(const FlightFacts& facts) {
  if (!facts.can_overlap) {
    RunsInFlight same{.count = facts.computing, .reason = {}};
    if (facts.requested.value_or(1) > facts.computing) {
      same.reason = fmt::format("{} in flight: inputs and outputs are copied within the runs", same.count);
    }
    return same;
  }
  constexpr unsigned by_default = 2;
  const unsigned count =
      std::clamp(facts.requested.value_or(by_default), facts.computing, std::max(facts.computing, max_runs_in_flight));
  if (count == facts.computing) return {.count = count, .reason = {}};
  return {.count = count,
          .reason = fmt::format("{} runs in flight: {} computing, the others copying inputs or outputs", count,
                                facts.computing)};
}

}  // namespace gpux::runtime
