#include "server/grpc/connection_acceptor.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/start_thread.h"
#include "gpux/error.h"

namespace gpux::server {
namespace {

// How long accepting rests when the process or the system is out of descriptors or memory.
constexpr std::chrono::milliseconds accept_rest{100};

}  // namespace

ConnectionAcceptor::ConnectionAcceptor(http::ListeningSocket socket, std::chrono::milliseconds connection_timeout,
                                       std::function<void(UniqueFd)> adopt)
    : socket_(std::move(socket)), connection_timeout_(connection_timeout), adopt_(std::move(adopt)) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorCode::resource_exhausted, std::string("no pipe can be made: ") + std::strerror(errno));
  }
  for (std::size_t i = 0; i < ends.size(); ++i) wake_[i].reset(ends[i]);
  thread_ = start_thread([this] { run(); });
}

ConnectionAcceptor::~ConnectionAcceptor() {
  stop();
}

void ConnectionAcceptor::stop() {
  if (!thread_.joinable()) return;
  wake_[1].reset();
  thread_.join();
  // Who is in the queue has been accepted by the kernel: closed here, the connection would be reset.
  (void)accept_waiting();
  socket_.close();
}

void ConnectionAcceptor::run() {
  std::array<pollfd, 2> watched{pollfd{wake_[0].get(), POLLIN, 0}, pollfd{socket_.handle(), POLLIN, 0}};
  while (true) {
    (void)::poll(watched.data(), watched.size(), -1);
    if (watched[0].revents != 0) return;
    if (watched[1].revents == 0 || accept_waiting()) continue;
    (void)::poll(watched.data(), 1, static_cast<int>(accept_rest.count()));
    if (watched[0].revents != 0) return;
  }
}

bool ConnectionAcceptor::accept_waiting() {
  while (true) {
    http::Accepted accepted = socket_.accept();
    if (!accepted.connection) {
      if (accepted.lacks_resources() && !std::exchange(resting_, true)) {
        log::warning("no more connections can be accepted for gRPC for now: {}", std::strerror(accepted.failure));
      }
      return accepted.failure == 0;
    }
    resting_ = false;
    const int connection = accepted.connection.get(), on = 1;
    ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
#ifdef TCP_USER_TIMEOUT
    const auto timeout_ms = static_cast<unsigned>(connection_timeout_.count());
    ::setsockopt(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
#endif
    adopt_(std::move(accepted.connection));
  }
}

}  // namespace gpux::server
