#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/models/serving_flags.h"

namespace CLI {
class App;
}

namespace gpux::cli {

/// The flags of `gpux serve`; empty where gpux.yml or a default decides.
struct ServeFlags : server::ServingFlags {
  std::string unix_path, api_key_file, admin_key_file, limits_file, audit_log, pull;
  std::string tls_certificate, tls_key, tls_client_ca;
  std::uint64_t response_cache_bytes = 0;                                 ///< 0: none
  std::uint64_t memory_budget_bytes = 0, device_memory_budget_bytes = 0;  ///< 0: no limit
  std::vector<std::string> cors_origins, allowed_hosts;
  bool pulls_on_demand = false;                 ///< a request for a model that is not stored pulls it
  std::vector<std::string> private_registries;  ///< HOST or HOST:PORT that requests may pull from and push to
  std::chrono::milliseconds watch{0};           ///< 0: not
  std::chrono::milliseconds drain_delay{0}, drain_timeout{std::chrono::seconds(30)};
  std::chrono::milliseconds load_timeout{std::chrono::minutes(10)};
  std::optional<std::chrono::milliseconds> idle_unload;  ///< 0: never; empty: as what is served has it
  std::optional<std::uint16_t> grpc_port;
  std::uint64_t max_body_bytes = std::uint64_t{64} << 20;
  std::size_t max_responses = 1024;  ///< that are kept; 0: none
  std::chrono::milliseconds response_ttl{std::chrono::hours(24)};
  unsigned busy_poll_us = 50;
  std::string shared_memory;    ///< the beginning of the names of objects that clients may register; empty: none
  std::optional<bool> console;  ///< empty: if it listens on loopback
  bool log_requests = false, is_strict = false, detach = false;
  bool in_background = false;  ///< by --detach: let go of the streams once it listens
};

void add_serve_flags(CLI::App& command, ServeFlags& flags);

}  // namespace gpux::cli
