#pragma once

#include <sys/socket.h>

namespace gpux::registry {

/// Whether the address is one that the internet routes, so that a stranger may name it: not of this machine, a private
/// network, a link, or a group, also where IPv6 has an IPv4 address inside (mapped, NAT64, 6to4). Other families than
/// these two are none. Source: IANA's registries of special-purpose addresses (RFC 6890). Pure.
bool is_public_address(const sockaddr& address) noexcept;

}  // namespace gpux::registry
