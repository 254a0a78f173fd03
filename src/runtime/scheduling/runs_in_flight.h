#pragma once

#include <optional>
#include <string>

namespace gpux::runtime {

/// Facts from which the number of runs in flight of a session is decided.
struct FlightFacts {
  bool can_overlap = false;           ///< Runtime::uses_pinned_memory()
  unsigned computing = 1;             ///< runs that compute at the same time: the workers
  std::optional<unsigned> requested;  ///< in flight; empty: gpux decides
};

struct RunsInFlight {
  unsigned count = 1;  ///< of them FlightFacts::computing compute, and the others copy inputs or outputs
  std::string reason;  ///< for messages; empty: nothing to say
};

constexpr unsigned max_runs_in_flight = 16;

/// Two by default, so that the inputs of one run are copied while the other computes; one where the provider copies
/// within its runs. Pure.
RunsInFlight decide_runs_in_flight(const FlightFacts& facts);

}  // namespace gpux::runtime
