#include "server/requests/console_access.h"

#include "server/requests/change_access.h"

namespace gpux::server {

std::string console_refusal(const ConsoleRequest& request) {
  if (!request.is_of_own_page) return "the console is for its own page, and not for pages of other origins";
  if (request.has_keys) return {};
  const bool is_local = request.peer == "unix" || is_loopback_peer(request.peer);
  if (request.is_for_this_machine && (request.is_forwarded || !is_local)) {
    return "without an API key the console is for this machine alone; --api-key-file sets keys, and --console gives it "
           "to all that reach the server";
  }
  // A page whose name was changed to the server's address is of the server's origin.
  if (request.peer != "unix" && !request.is_of_allowed_host) {
    return "the console does not accept this Host without an API key; --allowed-host adds a name";
  }
  return {};
}

}  // namespace gpux::server
