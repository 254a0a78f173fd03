#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include <sys/socket.h>
#include <sys/types.h>

#include "base/unique_fd.h"

namespace gpux::http {

/// What comes of an attempt to accept a connection.
struct Accepted {
  UniqueFd connection;  ///< non-blocking; none: nobody waits, or accepting must rest
  sockaddr_storage address = {};
  /// The process or the system has no descriptors or memory left, or the socket does not work: errno. 0: neither.
  int failure = 0;

  /// For the log: it is for want of descriptors or memory.
  [[nodiscard]] bool lacks_resources() const noexcept;
};

/// A socket that listens, non-blocking. Movable; closed at the end, a unix socket's file removed.
class ListeningSocket {
 public:
  /// Errors usage (no such address here), permission, network (in use; the message names the process).
  static ListeningSocket tcp(const std::string& host, std::uint16_t port);
  /// Replaces a socket that nobody listens on. Errors usage (too long, no socket), permission, network (in use),
  /// storage.
  static ListeningSocket unix_domain(const std::filesystem::path& path);

  ~ListeningSocket();
  ListeningSocket(ListeningSocket&&) noexcept = default;
  ListeningSocket& operator=(ListeningSocket&&) = delete;

  [[nodiscard]] int handle() const noexcept { return socket_.get(); }

  /// Accepts who waits first. Connections that failed before they were accepted are passed over.
  [[nodiscard]] Accepted accept() const noexcept;

  /// 0 for a unix socket.
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  [[nodiscard]] bool is_unix() const noexcept { return !path_.empty(); }

  void close() noexcept;

 private:
  explicit ListeningSocket(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
  std::uint16_t port_ = 0;
  std::filesystem::path path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace gpux::http
