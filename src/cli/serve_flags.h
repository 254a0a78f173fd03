#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/models/serving_flags.h"

namespace gpux::cli {

/// The flags of `gpux serve`, as typed; empty where gpux.yml or a default may speak.
struct ServeFlags : server::ServingFlags {
  std::string memory_budget, device_memory_budget, watch, unix_path, api_key_file, tls_certificate, tls_key, pull;
  std::vector<std::string> cors_origins, allowed_hosts;
  std::string drain_delay = "0", drain_timeout = "30s", load_timeout = "10m";
  std::optional<std::uint16_t> grpc_port;
  std::uint64_t max_body_bytes = std::uint64_t{64} << 20;
  unsigned busy_poll_us = 50;
  bool log_requests = false, detach = false;
  bool in_background = false;  ///< by --detach: let go of the streams once it listens
};

}  // namespace gpux::cli
