#include "base/port_owner.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/format.h>

namespace gpux {
namespace {

namespace fs = std::filesystem;

struct Listener {
  std::string inode, user;
};

// A line of /proc/net/tcp: number, local address, remote address, state, queues, timer, retransmits, user, timeout,
// inode.
std::optional<Listener> listener_in(const char* table, std::uint16_t port) {
  constexpr const char* listening = "0A";
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, timeout;
    Listener found;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> found.user >> timeout >>
        found.inode;
    if (state == listening && local.ends_with(fmt::format(":{:04X}", port))) return found;
  }
  return std::nullopt;
}

bool has_socket(const fs::path& process, const std::string& inode) {
  const std::string wanted = "socket:[" + inode + "]";
  std::error_code error;
  for (fs::directory_iterator i(process / "fd", error), end; !error && i != end; i.increment(error)) {
    std::error_code gone;
    if (fs::read_symlink(i->path(), gone) == wanted) return true;
  }
  return false;
}

}  // namespace

std::string port_owner(std::uint16_t port) {
  auto listener = listener_in("/proc/net/tcp", port);
  if (!listener) listener = listener_in("/proc/net/tcp6", port);
  if (!listener) return {};
  std::error_code error;
  for (fs::directory_iterator i("/proc", error), end; !error && i != end; i.increment(error)) {
    const std::string process = i->path().filename().string();
    if (process.find_first_not_of("0123456789") != std::string::npos || !has_socket(i->path(), listener->inode))
      continue;
    std::ifstream file(i->path() / "comm");
    std::string name;
    std::getline(file, name);
    return fmt::format("process {} ({})", process, name);
  }
  return fmt::format("a process of user {}", listener->user);
}

}  // namespace gpux
