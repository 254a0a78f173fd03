#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/load_flags.h"

namespace gpux::cli {

/// The flags of `gpux serve`, as typed.
struct ServeFlags {
  std::vector<std::string> models;
  std::string repository, memory_budget, watch;
  std::string config, host = "127.0.0.1", unix_path, default_model, api_key_file, tls_certificate, tls_key;
  std::string timeout, max_queue_delay = "0", drain_delay = "0", drain_timeout = "30s";
  std::uint16_t port = 8080, grpc_port = 8081;
  std::int64_t max_batch_size = 32;
  std::size_t max_queue = 1024;
  std::uint64_t max_body_bytes = std::uint64_t{64} << 20;
  unsigned io_threads = 0;
  bool log_requests = false, no_grpc = false;
  bool is_grpc_port_given = false;  ///< else the port being taken is no reason to end
  LoadFlags load;
};

/// A time that may be 0. Error usage that names the flag.
std::chrono::milliseconds duration_of(const std::string& text, const char* flag);

}  // namespace gpux::cli
