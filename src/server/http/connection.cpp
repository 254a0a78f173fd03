#include "server/http/connection.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <poll.h>
#include <sys/socket.h>

#include "base/log.h"

namespace gpux::http {

namespace {

/// A connection used within this time may have its next request under way: a drain waits for it.
constexpr std::chrono::milliseconds just_used{500};
/// Transfers that hold less are not worth giving up.
constexpr std::uint64_t worth_giving_up = 64 << 10;
constexpr std::chrono::milliseconds memory_wait{5};
constexpr int memory_waits = 20;

}  // namespace

/// The time between a connection's first and last step; however that comes, all is tidied up.
class Connection::Visit {
 public:
  explicit Visit(Connection& connection) : connection_(connection) {
    connection_.place_ = connection_.loop_.enter(connection_);
    connection_.ending_ = connection_.loop_.is_ending();
  }

  ~Visit() {
    connection_.clear_deadline();
    connection_.client_left();
    ErrorNumber ignored;
    connection_.socket_.close(ignored);
    connection_.loop_.give_buffer(std::move(connection_.buffer_));
    connection_.loop_.leave(connection_.place_);
    connection_.service_.connection_ended();
  }

  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  Connection& connection_;
};

void Connection::launch(Service& service, Loop& loop, Socket socket, net::ssl::context* tls, std::string peer) {
  auto connection = std::make_shared<Connection>(service, loop, std::move(socket), tls, std::move(peer));
  net::co_spawn(loop.context().get_executor(), connection->run(), [connection](const std::exception_ptr& failure) {
    if (!failure) return;
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      log::error("a connection was closed: {}", error.what());
    }
  });
}

Connection::Connection(Service& service, Loop& loop, Socket socket, net::ssl::context* tls, std::string peer)
    : service_(service),
      loop_(loop),
      socket_(std::move(socket)),
      peer_(std::make_shared<const std::string>(std::move(peer))),
      parser_(service.limits.max_header_bytes),
      outgoing_share_(service.memory) {
  if (tls != nullptr) tls_.emplace(socket_, *tls);
  is_tcp_ = *peer_ != "unix";
}

Task<void> Connection::pause() {
  return net::async_initiate<const net::use_awaitable_t<Executor>&, void()>(
      [this](auto handler) { waiter_.emplace(std::move(handler)); }, use_task);
}

void Connection::wake() {
  if (!waiter_) return;
  Waiter waiter = std::move(*waiter_);
  waiter_.reset();
  std::move(waiter)();
}

void Connection::answer_came() {
  net::post(loop_.context(), [self = shared_from_this()] { self->wake(); });
}

void Connection::arm_readable() {
  if (reading_armed_) return;
  reading_armed_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const ErrorNumber& error) {
    self->reading_armed_ = false;
    if (error) return;
    self->readable_ = true;
    if (self->watching_) self->check_client();
    self->wake();
  });
}

void Connection::arm_writable() {
  if (writing_armed_) return;
  writing_armed_ = true;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const ErrorNumber& error) {
    self->writing_armed_ = false;
    if (error) return;
    self->writable_ = true;
    self->wake();
  });
}

void Connection::arm_error() {
  if (error_armed_) return;
  error_armed_ = true;
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](const ErrorNumber& error) {
    self->error_armed_ = false;
    if (error || !self->watching_) return;
    self->left_ = true;
    self->wake();
  });
}

Task<void> Connection::yield() {
  co_await net::post(loop_.context().get_executor(), use_task);
}

void Connection::set_deadline(std::chrono::milliseconds from_now) {
  deadline_ = Clock::now() + from_now;
  expired_ = false;
}

void Connection::clear_deadline() noexcept {
  deadline_ = Clock::time_point::max();
  expired_ = false;
}

bool Connection::is_due(Clock::time_point now, bool draining) const noexcept {
  return deadline_ <= now || watching_clock_ || (draining && idle_ && now - idle_since_ >= just_used);
}

void Connection::remind(Clock::time_point now, bool draining) {
  if (deadline_ <= now) expired_ = true;
  if (watching_clock_) check_client();
  if (draining && idle_) retiring_ = true;
  wake();
}

std::optional<double> Connection::slow_rate(Clock::time_point now) const {
  if (transfer_held_ < worth_giving_up || given_up_) return std::nullopt;
  const std::optional<double> rate = pace_.bytes_per_second(now);
  return rate && *rate < static_cast<double>(service_.limits.slow_bytes_per_second) ? rate : std::nullopt;
}

void Connection::give_up_transfer() {
  given_up_ = true;
  wake();
}

Task<void> Connection::wait_for_memory() {
  service_.memory->reclaim();
  Timer timer(loop_.context());
  timer.expires_after(memory_wait);
  ErrorNumber ignored;
  co_await timer.async_wait(net::redirect_error(use_task, ignored));
}

Task<BodyBuffer::Outcome> Connection::grow(BodyBuffer& body) {
  auto outcome = body.grow();
  for (int wait = 0; outcome == BodyBuffer::Outcome::no_memory && wait < memory_waits && !stopped(); ++wait) {
    co_await wait_for_memory();
    outcome = body.grow();
  }
  transfer_held_ = body.size();
  co_return outcome;
}

Task<bool> Connection::take_memory(MemoryShare& share, std::uint64_t bytes) {
  bool taken = share.grow(bytes);
  for (int wait = 0; !taken && wait < memory_waits && !stopped(); ++wait) {
    co_await wait_for_memory();
    taken = share.grow(bytes);
  }
  co_return taken;
}

void Connection::end() {
  ending_ = true;
  wake();
}

void Connection::watch_client() {
  if (watching_) return;
  watching_ = true;
  readable_ = false;  // no more than a guess: waiting is over at once where something is there
  arm_readable();
}

void Connection::check_client() {
  pollfd entry{socket_.native_handle(), POLLIN | POLLRDHUP, 0};
  ::poll(&entry, 1, 0);
  watching_clock_ = false;
  const auto happened = static_cast<unsigned>(entry.revents);
  if ((happened & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
    left_ = true;
  } else if ((happened & POLLRDHUP) != 0) {
    // Its sending side has ended. With TLS that is the end; else it may still read.
    if (tls_) {
      left_ = true;
      return;
    }
    // Nothing tells a closed TCP connection from a half-closed one, but what happens to bytes sent to it. An interim
    // response is no part of the answer, and a client that has left resets the connection.
    if (is_tcp_ && may_probe_) {
      may_probe_ = false;
      const auto sent = ::send(socket_.native_handle(), interim_response.data(), interim_response.size(),
                               MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent != static_cast<ssize_t>(interim_response.size())) left_ = true;
    }
    if (!left_) arm_error();
  } else if ((happened & POLLIN) != 0) {
    watching_clock_ = true;
  } else {
    readable_ = false;
    arm_readable();
  }
}

void Connection::client_left() {
  watching_ = false;
  watching_clock_ = false;
  const auto answer = std::exchange(answer_, nullptr);
  if (!answer) return;
  try {
    answer->client_left();
  } catch (const std::exception& error) {
    log::error("a callback for a client that left failed: {}", error.what());
  }
}

Task<void> Connection::run() {
  const auto self = shared_from_this();
  const Visit visit(*this);
  if (tls_ && !co_await handshake()) co_return;
  while (co_await serve_request()) {
    // One request per turn: others would wait for all that this client has pipelined.
    if (begin_ < end_) co_await yield();
  }
  if (may_linger_ && !ending_) co_await linger();
}

Task<bool> Connection::serve_request() {
  if (!co_await wait_for_request()) co_return false;
  auto answer = std::make_shared<Answer>(service_.limits.stream_queue_bytes);
  Request& request = answer->request;
  Step step = co_await read_header(request);
  if (step == Step::over) co_return false;
  if (step == Step::refused) co_return co_await refuse();
  loop_.requests.add(1);
  const Framing& framing = parser_.framing();
  clear_deadline();
  admitted_body_bytes_ = UINT64_MAX;
  if (service_.admission) {
    std::optional<Response> response;
    try {
      Admitted admitted = service_.admission(request);
      response = std::move(admitted.refusal);
      admitted_body_bytes_ = admitted.max_body_bytes;
      request.admission = std::move(admitted.admission);
    } catch (const std::exception& error) {
      log::error("a request could not be admitted: {}", error.what());
      response = Response::error(500, "the server failed");
    }
    if (response) {
      loop_.requests_refused.add(1);
      response->close = response->close || framing.has_body();
      co_return co_await send(std::move(*response), request.is_head);
    }
  }
  if (framing.has_body()) {
    step = co_await read_body(request);
    if (step == Step::over) co_return false;
    if (step == Step::refused) co_return co_await refuse();
  }
  co_return co_await hand_over(std::move(answer));
}

Task<bool> Connection::refuse() {
  loop_.requests_refused.add(1);
  Response response = Response::error(refusal_.status, refusal_.message);
  if (refusal_.status == 503) response.headers.add("Retry-After", "1");
  if (refusal_.status == 415) response.headers.add("Accept-Encoding", "gzip, deflate");
  response.close = true;
  co_return co_await send(std::move(response), false);
}

Task<bool> Connection::hand_over(std::shared_ptr<Answer> answer) {
  loop_.handled.add(1);
  answer_ = answer;
  answer->listen(shared_from_this());
  may_probe_ = parser_.framing().http_1_1;
  left_ = false;
  try {
    service_.handler(std::make_shared<HandlerExchange>(answer));
  } catch (const std::exception& error) {
    log::error("a request could not be handled: {}", error.what());
    answer->respond(Response::error(500, "the server failed"));
  }
  for (;;) {
    Answer::Given given = answer->take();
    if (given.streaming) co_return co_await stream(std::move(answer), std::move(given));
    if (given.response) {
      watching_ = false;
      watching_clock_ = false;
      answer_.reset();
      answer->done();
      const bool is_head = answer->request.is_head;
      Response response = std::move(*given.response);
      if (response.status < 200 || response.status > 599) {
        log::error("a handler answered with status {}", response.status);
        response = Response::error(500, "the server failed");
      }
      if (response.compression != Compression::never && !is_head &&
          accepts_gzip(answer->request.headers["Accept-Encoding"])) {
        co_await compress(response);
      }
      answer.reset();  // with the request's body, before what may be a long time of writing
      co_return co_await send(std::move(response), is_head, true);
    }
    if (given.watch) watch_client();
    if (ending_ || left_) co_return false;
    co_await pause();
  }
}

}  // namespace gpux::http
