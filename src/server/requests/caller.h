#pragma once

#include <string>
#include <string_view>

namespace gpux::server {

/// Who sent a request.
struct Caller {
  std::string key;         ///< the name of the key that it came with; empty: none did
  bool is_admin = false;   ///< by its key
  std::string request_id;  ///< X-Request-Id of the request
  std::string address;     ///< of the connection's other end, without its port: "127.0.0.1", "[::1]", "unix"
};

/// What limits and audit lines call a client by its certificate. No name of a key has a colon.
inline std::string name_of_certificate(std::string_view name) {
  return "cert:" + std::string(name);
}

/// "127.0.0.1:40312" without its port.
inline std::string address_of(std::string_view peer) {
  return std::string(peer.substr(0, peer.rfind(':')));
}

}  // namespace gpux::server
