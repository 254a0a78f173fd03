#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/source.h"

namespace gpux::daemon {

/// How a daemon is doing. Counts are since it was started, also of sources that have gone since.
struct DaemonStatus {
  std::string state_file;
  std::string output;
  std::string sink;  ///< the collection of the vectors; empty: files of the output folder
  std::chrono::system_clock::time_point started, now;
  std::string model, digest, level, provider, verdict;  ///< empty: no vectors are made
  std::string declared_level;                           ///< what `level` is where it is not downgraded
  bool is_downgraded = false;
  std::uint64_t waiting = 0, waiting_bytes = 0;  ///< now
  std::uint64_t taken = 0, written = 0, known = 0, refused = 0, lost = 0;
  double written_per_second = 0;                                ///< vectors written per second, over the last seconds
  double embed_ms = 0;                                          ///< time of the latest runs, in milliseconds
  std::string sink_problem, model_problem, state_file_problem;  ///< empty: none
  std::vector<SourceStatus> sources;
};

/// The status as a JSON object on one line.
std::string to_json(const DaemonStatus& status);

/// Answer of GET /health: 503 while nothing can be written or an event cannot be embedded, else 200.
struct HealthAnswer {
  int http_status = 200;
  std::string json;  ///< {"status": "ok", "degraded" or "failing", "problems": {…}}
};

HealthAnswer health_of(const DaemonStatus& status);

/// Prometheus' text format (version 0.0.4), names gpux_daemon_….
std::string prometheus_text(const DaemonStatus& status);

}  // namespace gpux::daemon
