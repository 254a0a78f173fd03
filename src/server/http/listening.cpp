#include "server/http/listening.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/format_message.h"
#include "base/port_owner.h"
#include "gpux/error.h"

namespace gpux::http {

namespace {

[[noreturn]] void throw_bind_error(const std::string& what, const std::string& remedy, int number,
                                   std::uint16_t port = 0) {
  switch (number) {
    case EADDRINUSE: {
      const std::string owner = port == 0 ? "" : port_owner(port);
      throw Error(ErrorCode::network, fmt::format("{} is in use{}{}", what, owner.empty() ? "" : " by ", owner));
    }
    case EACCES:
    case EPERM:
      throw Error(ErrorCode::permission, fmt::format("{} may not be used by this user{}", what, remedy));
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      throw Error(ErrorCode::usage, fmt::format("{} is not on an address of this machine", what));
    case ENOENT:
    case ENOTDIR:
    case EROFS:
    case ENOSPC:
      throw Error(ErrorCode::storage, fmt::format("{} cannot be made: {}", what, std::strerror(number)));
    default:
      throw Error(ErrorCode::resource_exhausted, fmt::format("cannot listen on {}: {}", what, std::strerror(number)));
  }
}

UniqueFd open_socket(int family) {
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) throw_bind_error("a socket", "", errno);
  return socket;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure != 0) {
    throw Error(ErrorCode::usage,
                fmt::format("host '{}' is neither an address nor a known name: {}", host, ::gai_strerror(failure)));
  }
  return {found, &freeaddrinfo};
}

/// A name may stand for addresses of both families: clients try IPv4 for certain.
const addrinfo* preferred(const addrinfo* found) noexcept {
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family == AF_INET) return entry;
  }
  return found;
}

sockaddr_un address_of(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& name = path.native();
  if (name.size() >= sizeof address.sun_path) {
    throw Error(ErrorCode::usage, fmt::format("the path of unix socket '{}' has {} bytes; at most {} are possible",
                                              name, name.size(), sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, name.data(), name.size());
  return address;
}

void remove_stale(const std::filesystem::path& path, const sockaddr_un& address) {
  struct stat facts {};

  if (::lstat(path.c_str(), &facts) != 0) return;
  if (!S_ISSOCK(facts.st_mode)) {
    throw Error(ErrorCode::usage, format_message("'{}' exists and is not a socket; give another path", file_at(path)));
  }
  const UniqueFd probe = open_socket(AF_UNIX);
  const int outcome = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int number = outcome == 0 ? 0 : errno;
  // Anything but a refusal may come from a server that is alive, and merely busy or another user's.
  if (number != ECONNREFUSED)
    throw_bind_error("unix socket '" + path.string() + "'", "", number == EACCES ? EACCES : EADDRINUSE);
  ::unlink(path.c_str());
}

}  // namespace

bool Accepted::lacks_resources() const noexcept {
  return failure == EMFILE || failure == ENFILE || failure == ENOBUFS || failure == ENOMEM;
}

Accepted ListeningSocket::accept() const noexcept {
  constexpr int most_passed_over = 256;
  Accepted accepted;
  for (int count = 0; count < most_passed_over; ++count) {
    socklen_t length = sizeof accepted.address;
    accepted.connection.reset(
        ::accept4(handle(), reinterpret_cast<sockaddr*>(&accepted.address), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.connection) return accepted;
    accepted.failure = errno;
    if (accepted.failure == EAGAIN) {
      accepted.failure = 0;
      return accepted;
    }
    const bool is_of_socket = accepted.failure == EBADF || accepted.failure == EINVAL;
    if (is_of_socket || accepted.lacks_resources()) return accepted;
  }
  return accepted;
}

ListeningSocket ListeningSocket::tcp(const std::string& host, std::uint16_t port) {
  const Addresses found = resolve(host, port);
  const addrinfo* address = preferred(found.get());
  ListeningSocket socket(open_socket(address->ai_family));
  const int on = 1;
  const int off = 0;
  ::setsockopt(socket.handle(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->ai_family == AF_INET6) ::setsockopt(socket.handle(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(socket.handle(), address->ai_addr, address->ai_addrlen) != 0 ||
      ::listen(socket.handle(), SOMAXCONN) != 0) {
    throw_bind_error(fmt::format("port {} of host {}", port, host), "; ports from 1024 on are free to all", errno,
                     port);
  }
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  ::getsockname(socket.handle(), reinterpret_cast<sockaddr*>(&bound), &length);
  socket.port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                                                   : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
  return socket;
}

ListeningSocket ListeningSocket::unix_domain(const std::filesystem::path& path) {
  const sockaddr_un address = address_of(path);
  remove_stale(path, address);
  ListeningSocket socket(open_socket(AF_UNIX));
  if (::bind(socket.handle(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.handle(), SOMAXCONN) != 0) {
    throw_bind_error("unix socket '" + path.string() + "'", "", errno);
  }
  socket.path_ = path;

  struct stat facts {};

  if (::lstat(path.c_str(), &facts) == 0) {
    socket.device_ = facts.st_dev;
    socket.inode_ = facts.st_ino;
  }
  return socket;
}

ListeningSocket::~ListeningSocket() {
  close();
}

void ListeningSocket::close() noexcept {
  if (!socket_) return;
  socket_.reset();
  if (path_.empty()) return;

  // Another server may have put its own there since.
  struct stat facts {};

  if (::lstat(path_.c_str(), &facts) == 0 && facts.st_dev == device_ && facts.st_ino == inode_) ::unlink(path_.c_str());
}

}  // namespace gpux::http
