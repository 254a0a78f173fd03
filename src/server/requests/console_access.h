#pragma once

#include <string>
#include <string_view>

namespace gpux::server {

/// What decides whether a request may read what the console shows.
struct ConsoleRequest {
  bool has_keys = false;        ///< the server asks for keys, and the request has one
  bool is_of_own_page = false;  ///< no web page sent it, or one of the server itself: BrowserAccess::is_own_origin()
  bool is_for_this_machine = false;  ///< without keys the console is for this machine alone
  bool is_of_allowed_host = false;   ///< BrowserAccess::is_allowed_host()
  std::string_view peer;             ///< "127.0.0.1:40312", "[::1]:40312", "unix"
  bool is_forwarded = false;         ///< a proxy says that it passes on the request of another machine
};

/// Why the request is refused; empty where it is accepted: no page of another origin sent it, and it has a key or,
/// where the server has none, names a host that no page of a stranger can have, and comes from this machine where the
/// console is for that alone. Pure.
std::string console_refusal(const ConsoleRequest& request);

}  // namespace gpux::server
