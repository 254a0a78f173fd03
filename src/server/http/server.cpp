#include "server/http/server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/unique_fd.h"
#include "gpux/error.h"
#include "server/http/listening.h"
#include "server/http/loop.h"
#include "server/http/tls.h"

namespace gpux::http {

namespace {

/// How long accepting rests when the process or the system is out of descriptors or memory.
constexpr std::chrono::milliseconds accept_rest{100};
/// Without giving the connections their turn.
constexpr int accepted_at_once = 256;
constexpr unsigned max_threads_by_default = 4;

std::string text_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& inet = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &inet.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(inet.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto& inet = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &inet.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(inet.sin6_port));
  }
  return "unix";
}

/// Best effort: what the client has sent is read, or the reset on close would overtake the answer.
void turn_away(const UniqueFd& socket, bool tls) noexcept {
  constexpr std::string_view answer =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 63\r\n"
      "Retry-After: 1\r\nConnection: close\r\n\r\n"
      "{\"error\": \"the server has as many connections as it may have\"}\n";
  if (!tls) {
    std::array<char, 16384> ignored;
    [[maybe_unused]] const auto read = ::recv(socket.get(), ignored.data(), ignored.size(), MSG_DONTWAIT);
    [[maybe_unused]] const auto sent = ::send(socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ::shutdown(socket.get(), SHUT_WR);
  }
}

}  // namespace

unsigned threads_by_default() {
  return std::min(usable_processors(Machine::this_one()), max_threads_by_default);
}

class Server::Implementation {
 public:
  Implementation(ServerOptions options, Handler handler, Admission admission);
  ~Implementation();
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  void start();

  void close_after_answers() noexcept { service_.leaving = true; }

  bool drain(Clock::time_point deadline);
  [[nodiscard]] Counters counters() const noexcept;

 private:
  /// Accepts on the first loop's thread and deals the connections out to the loop that has the fewest.
  struct Acceptor {
    Acceptor(ListeningSocket listening, Loop& loop)
        : socket(std::move(listening)), descriptor(loop.context()), rest(loop.context()) {
      descriptor.assign(socket.handle());
    }

    ~Acceptor() { stop(); }

    Acceptor(const Acceptor&) = delete;
    Acceptor& operator=(const Acceptor&) = delete;

    void stop() {
      stopped = true;
      rest.cancel();
      if (descriptor.is_open()) descriptor.release();
      socket.close();
    }

    ListeningSocket socket;
    net::posix::basic_stream_descriptor<Executor> descriptor;
    Timer rest;
    bool stopped = false;
    bool resting = false;  ///< said so in the log
  };

  void await(Acceptor& acceptor);
  /// Accepts who waits, at most `most`. False where it must rest.
  bool accept(Acceptor& acceptor, int most);
  void welcome(Acceptor& acceptor, UniqueFd socket, const sockaddr_storage& address);
  /// False where the thread that accepts has not come to it by `deadline`.
  bool stop_accepting(Clock::time_point deadline);

  Service service_;
  std::unique_ptr<TlsFiles> tls_;
  std::uint16_t port_ = 0;
  bool started_ = false;
  bool stops_accepting_ = false;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::optional<MemoryReclaimer> reclaimer_;  // calls the loops
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
};

Server::Implementation::Implementation(ServerOptions options, Handler handler, Admission admission) {
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    throw Error(ErrorCode::usage, "TLS needs both a certificate and a key");
  }
  if (!options.port && options.unix_path.empty())
    throw Error(ErrorCode::usage, "neither a port nor a unix socket is given");
  service_.limits = options.limits;
  service_.handler = std::move(handler);
  service_.admission = std::move(admission);
  service_.memory = options.memory ? options.memory : std::make_shared<MemoryBudget>(default_memory_bytes);
  if (options.tls_certificate.empty() && !options.tls_client_ca.empty()) {
    throw Error(ErrorCode::usage, "certificates of clients need TLS, with a certificate of the server");
  }
  if (!options.tls_certificate.empty()) {
    tls_ = std::make_unique<TlsFiles>(options.tls_certificate, options.tls_key, options.tls_client_ca);
  }

  std::vector<ListeningSocket> sockets;
  if (options.port) sockets.push_back(ListeningSocket::tcp(options.host, *options.port));
  if (options.port) port_ = sockets.back().port();
  if (!options.unix_path.empty()) sockets.push_back(ListeningSocket::unix_domain(options.unix_path));

  const unsigned threads = options.threads > 0 ? options.threads : threads_by_default();
  for (unsigned index = 0; index < threads; ++index)
    loops_.push_back(std::make_unique<Loop>(service_, options.busy_poll));
  reclaimer_.emplace(service_.memory, [this] {
    for (const auto& loop : loops_) loop->release_memory();
  });
  for (ListeningSocket& socket : sockets) {
    acceptors_.push_back(std::make_unique<Acceptor>(std::move(socket), *loops_.front()));
  }
}

Server::Implementation::~Implementation() {
  (void)stop_accepting(Clock::time_point::max());
  reclaimer_.reset();
  for (const auto& loop : loops_) loop->end();
  acceptors_.clear();
}

void Server::Implementation::start() {
  if (std::exchange(started_, true)) return;
  for (const auto& acceptor : acceptors_) await(*acceptor);
  for (const auto& loop : loops_) loop->start();
}

void Server::Implementation::await(Acceptor& acceptor) {
  acceptor.descriptor.async_wait(net::posix::descriptor_base::wait_read, [this, &acceptor](const ErrorNumber& error) {
    if (error || acceptor.stopped) return;
    if (accept(acceptor, accepted_at_once)) {
      await(acceptor);
      return;
    }
    acceptor.rest.expires_after(accept_rest);
    acceptor.rest.async_wait([this, &acceptor](const ErrorNumber& ended) {
      if (!ended && !acceptor.stopped) await(acceptor);
    });
  });
}

bool Server::Implementation::accept(Acceptor& acceptor, int most) {
  for (int count = 0; count < most; ++count) {
    Accepted accepted = acceptor.socket.accept();
    if (accepted.connection) {
      acceptor.resting = false;
      welcome(acceptor, std::move(accepted.connection), accepted.address);
      continue;
    }
    if (accepted.lacks_resources() && !std::exchange(acceptor.resting, true)) {
      log::warning("no more connections can be accepted for now: {}", std::strerror(accepted.failure));
    }
    return accepted.failure == 0;
  }
  return true;
}

void Server::Implementation::welcome(Acceptor& acceptor, UniqueFd socket, const sockaddr_storage& address) {
  const bool tls = tls_ && !acceptor.socket.is_unix();
  if (service_.connections_open.load() >= service_.limits.max_connections) {
    service_.connections_refused.fetch_add(1);
    turn_away(socket, tls);
    return;
  }
  if (!acceptor.socket.is_unix()) {
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  service_.connections_accepted.fetch_add(1);
  service_.connections_open.fetch_add(1);
  const auto emptiest = std::min_element(loops_.begin(), loops_.end(), [](const auto& left, const auto& right) {
    return left->connections() < right->connections();
  });
  (*emptiest)->adopt({std::move(socket), acceptor.socket.is_unix() ? AF_UNIX : static_cast<int>(address.ss_family),
                      tls ? tls_->current() : nullptr, acceptor.socket.is_unix() ? "unix" : text_of(address)});
}

bool Server::Implementation::stop_accepting(Clock::time_point deadline) {
  if (acceptors_.empty() || stops_accepting_) return true;
  stops_accepting_ = true;
  const auto stop = [this] {
    for (const auto& acceptor : acceptors_) {
      // Who is in the queue has been accepted by the kernel: closed here, the connection would be reset.
      if (started_) accept(*acceptor, SOMAXCONN);
      acceptor->stop();
    }
  };
  if (!started_) {
    stop();
    return true;
  }
  const auto stopped = std::make_shared<std::promise<void>>();
  net::post(loops_.front()->context(), [stop, stopped] {
    stop();
    stopped->set_value();
  });
  return stopped->get_future().wait_until(deadline) == std::future_status::ready;
}

bool Server::Implementation::drain(Clock::time_point deadline) {
  service_.leaving = true;
  service_.draining = true;
  if (!stop_accepting(deadline)) return false;
  if (!started_) return true;
  for (const auto& loop : loops_) loop->begin_drain();
  std::unique_lock lock(service_.ended_mutex);
  return service_.ended.wait_until(lock, deadline, [this] { return service_.connections_open.load() == 0; });
}

Counters Server::Implementation::counters() const noexcept {
  Counters counters;
  counters.connections_open = service_.connections_open.load();
  counters.connections_accepted = service_.connections_accepted.load();
  counters.connections_refused = service_.connections_refused.load();
  counters.held_bytes = service_.memory->held_bytes();
  for (const auto& loop : loops_) {
    counters.requests += loop->requests.get();
    counters.requests_refused += loop->requests_refused.get();
    counters.handled += loop->handled.get();
    counters.answered += loop->answered.get();
    counters.cut_off_at_deadline += loop->cut_off_at_deadline.get();
    counters.cut_off_as_slow += loop->cut_off_as_slow.get();
    counters.cut_off_for_memory += loop->cut_off_for_memory.get();
    counters.received_bytes += loop->received_bytes.get();
    counters.sent_bytes += loop->sent_bytes.get();
  }
  return counters;
}

Server::Server(ServerOptions options, Handler handler, Admission admission)
    : implementation_(std::make_unique<Implementation>(std::move(options), std::move(handler), std::move(admission))) {}

Server::~Server() = default;

std::uint16_t Server::port() const noexcept {
  return implementation_->port();
}

void Server::start() {
  implementation_->start();
}

void Server::close_after_answers() noexcept {
  implementation_->close_after_answers();
}

bool Server::drain(std::chrono::steady_clock::time_point deadline) {
  return implementation_->drain(deadline);
}

Counters Server::counters() const noexcept {
  return implementation_->counters();
}

}  // namespace gpux::http
