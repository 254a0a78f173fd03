#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/tensor.h"

namespace gpux::runtime {

/// Result of a trial that runs requests of a model alone and batched, and compares their answers.
struct SharingTrial {
  enum class Outcome : std::uint8_t {
    equal,        ///< every answer was the same
    different,    ///< an answer depended on what shared its run
    changing,     ///< a request alone was answered differently the second time
    constant,     ///< all requests have the same answer, so that comparing them shows nothing
    failed,       ///< the model refused the made-up inputs
    out_of_time,  ///< it was stopped
  };

  Outcome outcome = Outcome::failed;
  std::string detail = {};  ///< what differed or failed; empty where equal
  int shared_runs = 0;
  std::int64_t max_rows = 0;  ///< maximum rows of a shared run

  bool operator==(const SharingTrial&) const = default;
};

struct TrialLimits {
  std::chrono::nanoseconds time = std::chrono::seconds(5);
  std::int64_t max_rows = 32;                         ///< maximum rows of a shared run
  std::int64_t max_elements = std::int64_t{1} << 20;  ///< maximum elements of an input of a shared run
};

/// Runs the model; a run that takes longer than `limit` is to fail with deadline_exceeded.
using TrialRun = std::function<NamedValues(const NamedValues& inputs, std::chrono::nanoseconds limit)>;
using TrialClock = std::function<std::chrono::steady_clock::time_point()>;

/// Runs made-up requests of one to five rows alone, one of them twice, and then together: in another order, repeated,
/// and with companions of other magnitudes, up to `limits.max_rows` rows. Shapes are compared exactly, values within
/// provider_tolerance(). A dependence that shows for none of these values remains undetected.
/// `sizes`: sizes of free dimensions to try first, by name or as "input.index". Further ones follow, all of them unlike
/// the numbers of rows, until the model takes one. The signature must permit a batch along the first axis.
SharingTrial try_sharing(const Signature& signature,
                         const std::vector<std::vector<std::pair<std::string, std::int64_t>>>& sizes,
                         const TrialRun& run, const TrialLimits& limits = {},
                         const TrialClock& now = std::chrono::steady_clock::now);

}  // namespace gpux::runtime
