#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "settings/setting.h"

namespace gpux {

/// Number of runs of a model that may execute at the same time, as requested.
struct WorkerRequest {
  enum class Kind : std::uint8_t {
    count,      ///< so many; one uses all threads, several use one each
    automatic,  ///< one with all threads, or one a processor: whichever gets more done, measured
    devices,    ///< one session on each device of the provider that has room, or `count` sessions on them
    cores,      ///< `count` sessions that share the processors: share_processors()
  };
  Kind kind = Kind::count;
  unsigned count = 1;                      ///< number of workers; 0 for `devices`: one on each
  unsigned most = 0;                       ///< for automatic and devices; 0: no limit
  std::optional<unsigned> in_flight = {};  ///< runs of a session on their way at the same time; empty: gpux decides
};

/// Reads "4", "auto", "devices", "devices:6", "cores:2". Errors of refuse().
WorkerRequest read_workers(const std::string& text, const Source& source);

/// The text that read_workers() reads; `most` and `in_flight` are not in it.
std::string to_string(const WorkerRequest& request);

}  // namespace gpux
