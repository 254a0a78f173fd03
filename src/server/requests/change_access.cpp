#include "server/requests/change_access.h"

namespace gpux::server {

bool is_loopback_peer(std::string_view peer) noexcept {
  return peer.starts_with("127.") || peer.starts_with("[::1]:") || peer.starts_with("[::ffff:127.");
}

std::string change_refusal(const ChangeRequest& request) {
  if (!request.serves_store) {
    return "the server serves the models that it was started with; gpux serve without a MODEL serves those of the "
           "store, which requests may change";
  }
  if (request.is_of_strange_origin) {
    return "the server does not accept changes of its models by pages of other origins; --cors-origin adds an origin";
  }
  if (request.has_keys) return {};
  if (!request.listens_on_loopback) {
    return "the server can be reached by other machines: it accepts changes of its models with an API key, as "
           "--api-key-file sets them";
  }
  if (request.is_forwarded || !is_loopback_peer(request.peer)) {
    return "the server accepts changes of its models without an API key from this machine alone; --api-key-file sets "
           "keys";
  }
  return {};
}

}  // namespace gpux::server
