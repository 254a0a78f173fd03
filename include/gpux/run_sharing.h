#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gpux/export.h"

namespace gpux {

/// The batch axis of a model's inputs and outputs, as set by the user.
enum class BatchAxis : std::uint8_t {
  zero,  ///< the first: requests share runs, even if outputs vary slightly with the other requests
  none,  ///< no axis: every request runs alone
};

/// Whether requests may share a run of a model, and how that is known.
struct RunSharing {
  /// How the decision was made.
  enum class Source : std::uint8_t {
    signature,   ///< the declared shapes rule it out
    setting,     ///< gpux.yml or a flag sets it
    graph,       ///< the model's operators rule it out
    trial,       ///< a trial compared requests run alone and together
    single_run,  ///< a run has only one request anyway
    not_proven,  ///< no trial was made, or it had no result
  };

  bool shared = false;
  Source source = Source::not_proven;
  std::string reason;  ///< one clause, without a full stop

  bool operator==(const RunSharing&) const = default;
};

/// Name of the source: "signature", "setting", "graph", "trial", "single-run", "not-proven".
GPUX_API std::string_view to_string(RunSharing::Source source) noexcept;

/// One line of text: "requests share runs (trial): …", "requests run one by one (graph): …"
GPUX_API std::string to_line(const RunSharing& sharing);

/// {"shared": …, "source": …, "reason": …}
GPUX_API std::string to_json(const RunSharing& sharing);

}  // namespace gpux
