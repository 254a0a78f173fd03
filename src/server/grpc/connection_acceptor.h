#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include "base/unique_fd.h"
#include "server/http/listening.h"

namespace gpux::server {

/// Accepts TCP connections on a thread of its own. gRPC's own listener ends with the server alone: a client that is
/// disconnected while the server ends would be back before it, and have its call ended as if it had left.
class ConnectionAcceptor {
 public:
  /// `adopt` gets each connection, non-blocking, on the acceptor's thread. One whose other end acknowledges nothing of
  /// what was sent, or has no room for it, for `connection_timeout` is closed by the system.
  ConnectionAcceptor(http::ListeningSocket socket, std::chrono::milliseconds connection_timeout,
                     std::function<void(UniqueFd connection)> adopt);
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  /// Accepts who waits, and closes the socket: later ones are refused by the system. Blocks until `adopt` has returned
  /// for the last time. Again does nothing. Not for several threads at once.
  void stop();

 private:
  void run();
  /// Accepts who waits. False where it must rest.
  bool accept_waiting();

  http::ListeningSocket socket_;
  std::chrono::milliseconds connection_timeout_;
  std::function<void(UniqueFd)> adopt_;
  std::array<UniqueFd, 2> wake_;  ///< a pipe: readable once it is to stop
  bool resting_ = false;          ///< said so in the log
  std::thread thread_;
};

}  // namespace gpux::server
