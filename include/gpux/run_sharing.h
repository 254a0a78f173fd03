#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gpux/export.h"

namespace gpux {

/// Which axis of a model's inputs and outputs is the batch, where the user states it.
enum class BatchAxis : std::uint8_t {
  zero,  ///< the first: requests share runs, also where answers drift with what shares their run
  none,  ///< none: every request runs alone
};

/// Whether requests may share a run of a model, and how that is known.
struct RunSharing {
  enum class Source : std::uint8_t {
    signature,   ///< the declared shapes rule it out
    setting,     ///< gpux.yml or a flag states it
    graph,       ///< the model's operators rule it out
    trial,       ///< answers of requests that ran alone and together were compared
    single_run,  ///< a run takes a single request anyway
    not_proven,  ///< no trial was made, or it came to no result
  };

  bool shared = false;
  Source source = Source::not_proven;
  std::string reason;  ///< one clause, without a full stop

  bool operator==(const RunSharing&) const = default;
};

/// "signature", "setting", "graph", "trial", "single-run", "not-proven"
GPUX_API std::string_view to_string(RunSharing::Source source) noexcept;

/// One line for people: "requests share runs (trial): …", "requests run one by one (graph): …"
GPUX_API std::string to_line(const RunSharing& sharing);

/// {"shared": …, "source": …, "reason": …}
GPUX_API std::string to_json(const RunSharing& sharing);

}  // namespace gpux
