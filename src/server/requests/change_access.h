#pragma once

#include <string>
#include <string_view>

namespace gpux::server {

/// What decides whether a request may change the models that are stored.
struct ChangeRequest {
  bool serves_store = false;          ///< the server serves the models of the store by name
  bool has_keys = false;              ///< the server asks for keys, and the request has one
  bool listens_on_loopback = false;   ///< the server does
  std::string_view peer;              ///< "127.0.0.1:40312", "[::1]:40312", "unix"
  bool is_forwarded = false;          ///< a proxy says that it passes on the request of another machine
  bool is_of_strange_origin = false;  ///< a web page sent it, which is neither of the server nor allowed
};

/// Why the request is refused; empty where it is accepted: the server serves the store, no page of a stranger sent it,
/// and it has a key or, where the server has none, comes from this machine to a server that only this machine reaches.
/// Pure.
std::string change_refusal(const ChangeRequest& request);

/// Whether the peer is a connection over TCP from a loopback address.
bool is_loopback_peer(std::string_view peer) noexcept;

}  // namespace gpux::server
