#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpux/generator.h"
#include "server/models/version_policy.h"
#include "settings/load_request.h"
#include "settings/serving_request.h"

namespace gpux::server {

/// Which models are served and how, as the command line says; empty where the list of models, gpux.yml or a default
/// decides.
struct ServingFlags {
  std::vector<std::string> models;  ///< NAME=MODEL or MODEL
  std::string models_file, repository, config, default_model;
  VersionPolicy version_policy;                      ///< of `repository`
  bool serves_store = false;                         ///< the models of the store, each loaded when a request names it
  std::map<std::string, std::string> pulled_models;  ///< names in the store, by the references in models_file
  std::string host;
  std::optional<std::uint16_t> port;
  bool no_prefix_caching = false, no_prompt_lookup = false;
  std::string draft;  ///< the draft model of the one that is served; empty: none
  CachePrecision cache_precision = CachePrecision::automatic;
  std::string prompt_cache;  ///< GeneratorOptions::prompt_cache
  std::uint64_t prompt_cache_bytes = GeneratorOptions().prompt_cache_bytes;
  unsigned io_threads = 0;  ///< of the transport; 0: its default
  bool no_grpc = false;
  ServingRequest serving;
  LoadRequest load;
};

}  // namespace gpux::server
