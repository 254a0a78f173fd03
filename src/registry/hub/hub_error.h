#pragma once

#include <string>

#include "gpux/error.h"
#include "registry/http/client.h"

namespace gpux::registry {

/// A request to the hub, as error messages describe it.
struct HubRequest {
  std::string repository, revision, file;  ///< the last two may be empty
  std::string endpoint;
  std::string token_source;  ///< where the token is from; empty: none was sent
};

/// The error that an answer without success means. The hub's X-Error-Code decides, since it answers 401 for what is
/// missing, too: permission where the repository is gated or the token is wrong; not_found where the repository, the
/// revision or the file is missing; network for a rate limit and whatever is the hub's own failure. Pure.
Error hub_error(const Response& response, const HubRequest& request);

}  // namespace gpux::registry
