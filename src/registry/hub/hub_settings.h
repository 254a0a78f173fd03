#pragma once

#include <filesystem>
#include <string>

#include "base/machine.h"

namespace gpux::registry {

/// The settings of the hub in the environment, in the variables of huggingface_hub.
struct HubSettings {
  std::string endpoint;          ///< HF_ENDPOINT, without a '/' at the end; else https://huggingface.co
  std::string token;             ///< HF_TOKEN, or the file that HF_TOKEN_PATH names, or HF_HOME/token; may be empty
  std::string token_source;      ///< "HF_TOKEN", or the file
  std::filesystem::path cache;   ///< HF_HUB_CACHE, or HF_HOME/hub; it may not exist
  std::string offline_variable;  ///< GPUX_OFFLINE or HF_HUB_OFFLINE where it forbids downloads; else empty
};

/// Reads endpoint and token of the hub. Errors usage: HF_ENDPOINT is no address; a token has characters that no token
/// has.
HubSettings read_hub_settings(const Machine& machine);

/// The variable that forbids downloads, GPUX_OFFLINE or HF_HUB_OFFLINE; empty where neither is set to 1, true, yes or
/// on.
std::string offline_variable(const Machine& machine);

}  // namespace gpux::registry
