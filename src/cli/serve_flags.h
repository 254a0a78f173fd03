#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/load_flags.h"

namespace gpux::cli {

/// The flags of `gpux serve`, as typed; empty where gpux.yml or a default may speak.
struct ServeFlags {
  std::vector<std::string> models;
  std::string models_file, repository, memory_budget, watch;
  std::string config, host, unix_path, default_model, api_key_file, tls_certificate, tls_key;
  std::string timeout, max_queue_delay, workers, drain_delay = "0", drain_timeout = "30s", load_timeout = "10m";
  std::optional<std::uint16_t> port, grpc_port;
  std::optional<std::int64_t> max_batch_size, max_batch_cost;
  std::string batch_axis, batching;
  std::optional<std::size_t> max_queue;
  std::optional<unsigned> max_workers;
  std::uint64_t max_body_bytes = std::uint64_t{64} << 20;
  unsigned io_threads = 0, busy_poll_us = 50;
  bool log_requests = false, detach = false, no_grpc = false;
  bool in_background = false;  ///< by --detach: let go of the streams once it listens
  LoadFlags load;
};

/// A time that may be 0. Error usage that names the flag.
std::chrono::milliseconds duration_of(const std::string& text, const char* flag);

}  // namespace gpux::cli
