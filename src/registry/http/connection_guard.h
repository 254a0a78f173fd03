#pragma once

#include <set>
#include <string>

#include <sys/socket.h>

#include "registry/http/url.h"

namespace gpux::registry {

/// Which addresses one transfer may connect to: those of the internet, of the hosts that are excepted, and of the
/// proxies in the environment. One thread at a time.
class ConnectionGuard {
 public:
  /// Error permission where the URL names an address itself, or this machine, that is not accepted. `excepted`: "HOST"
  /// or "HOST:PORT".
  ConnectionGuard(const Url& url, const std::set<std::string>& excepted);

  /// Whether a connection may be made to the address that the URL's name leads to, or that of its proxy.
  [[nodiscard]] bool may_connect(const sockaddr& address);

  /// Error permission if one was refused.
  void check() const;

 private:
  [[noreturn]] void refuse() const;

  std::string authority_;
  bool is_excepted_ = false, has_refused_ = false;
};

}  // namespace gpux::registry
