#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "settings/load_request.h"

namespace gpux::server {

/// Which models are served and how, as typed; empty where the list of models, gpux.yml or a default decides.
struct ServingFlags {
  std::vector<std::string> models;  ///< NAME=MODEL or MODEL
  std::string models_file, repository, config, default_model;
  std::map<std::string, std::string> pulled_models;  ///< names in the store, by the references in models_file
  std::string host;
  std::optional<std::uint16_t> port;
  std::string max_queue_delay, workers, batching;
  std::optional<std::int64_t> max_batch_size, max_batch_cost;
  std::optional<std::size_t> max_queue;
  std::optional<unsigned> max_workers, runs_in_flight;
  std::optional<std::uint32_t> max_sequences, context_length;  ///< of models that generate text
  std::optional<std::uint64_t> cache_bytes;
  bool no_prefix_caching = false;
  unsigned io_threads = 0;  ///< of the transport; 0: its default
  bool no_grpc = false;
  std::string stop_grace, max_restart_delay;  ///< of worker processes
  LoadRequest load;
};

/// A time that may be 0. Error usage that names the flag.
std::chrono::milliseconds duration_of(const std::string& text, const char* flag);

}  // namespace gpux::server
