#pragma once

#include <cstdint>
#include <string>

namespace gpux {

/// Who listens on the TCP port of this machine: "process 4711 (nginx)", or "a process of user 33" where its files may
/// not be looked at; empty where nobody is found.
std::string port_owner(std::uint16_t port);

}  // namespace gpux
