#include "server/http/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <fmt/compile.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/log.h"

namespace gpux::http {

namespace {

constexpr std::chrono::milliseconds linger_limit{2000};
/// A connection used within this time may have its next request under way: a drain waits for it.
constexpr std::chrono::milliseconds just_used{500};
constexpr std::size_t coding_portion = 64 << 10;
constexpr std::size_t tls_portion = 16 << 10;
constexpr std::string_view interim = "HTTP/1.1 100 Continue\r\n\r\n";

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::chrono::milliseconds at_rate(std::uint64_t bytes, std::uint64_t bytes_per_second) {
  return std::chrono::milliseconds(bytes * 1000 / std::max<std::uint64_t>(bytes_per_second, 1));
}

bool is_bodiless(int status) noexcept {
  return status == 204 || status == 304;
}

bool is_the_transports(std::string_view name) noexcept {
  return same_name(name, "Content-Length") || same_name(name, "Transfer-Encoding") || same_name(name, "Connection") ||
         same_name(name, "Date");
}

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
      parser_(service.limits.max_header_bytes) {
  if (tls != nullptr) tls_.emplace(socket_, *tls);
  is_tcp_ = *peer_ != "unix";
}

// ---- waiting -------------------------------------------------------------------------------------------------------

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

void Connection::end() {
  ending_ = true;
  wake();
}

// ---- the client's presence -----------------------------------------------------------------------------------------

void Connection::watch_client() {
  if (watching_) return;
  watching_ = true;
  if (readable_) {
    check_client();
  } else {
    arm_readable();
  }
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
      const auto sent = ::send(socket_.native_handle(), interim.data(), interim.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent != static_cast<ssize_t>(interim.size())) left_ = true;
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

// ---- reading -------------------------------------------------------------------------------------------------------

std::span<char> Connection::buffer_room() {
  if (!buffer_) buffer_ = loop_.take_buffer();
  if (begin_ > 0) {
    std::copy(buffer_.get() + begin_, buffer_.get() + end_, buffer_.get());
    end_ -= begin_;
    begin_ = 0;
  }
  return {buffer_.get() + end_, loop_.buffer_bytes() - end_};
}

Task<std::ptrdiff_t> Connection::receive(std::span<char> room) {
  if (tls_) co_return co_await receive_tls(room);
  for (;;) {
    if (readable_) {
      const ssize_t received = ::recv(socket_.native_handle(), room.data(), room.size(), MSG_DONTWAIT);
      if (received >= 0) {
        readable_ = static_cast<std::size_t>(received) == room.size();
        at_end_ = received == 0;
        loop_.received_bytes.add(static_cast<std::uint64_t>(received));
        co_return received;
      }
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        ending_ = true;
        co_return -1;
      }
      readable_ = false;
    }
    if (stopped() || (retiring_ && idle_)) co_return -1;
    arm_readable();
    co_await pause();
  }
}

Task<std::ptrdiff_t> Connection::receive_tls(std::span<char> room) {
  std::optional<std::pair<ErrorNumber, std::size_t>> outcome;
  tls_->async_read_some(net::buffer(room.data(), room.size()),
                        [this, self = shared_from_this(), &outcome](const ErrorNumber& error, std::size_t count) {
                          outcome.emplace(error, count);
                          wake();
                        });
  bool cancelled = false;
  // The memory is in use until the operation has ended.
  while (!outcome) {
    if (!cancelled && (stopped() || (retiring_ && idle_))) {
      cancelled = true;
      socket_.cancel();
    }
    co_await pause();
  }
  if (outcome->first) {
    at_end_ = !cancelled;
    co_return cancelled ? -1 : 0;
  }
  loop_.received_bytes.add(outcome->second);
  co_return static_cast<std::ptrdiff_t>(outcome->second);
}

Task<bool> Connection::handshake() {
  set_deadline(service_.limits.header_timeout);
  std::optional<ErrorNumber> outcome;
  tls_->async_handshake(net::ssl::stream_base::server,
                        [this, self = shared_from_this(), &outcome](const ErrorNumber& error) {
                          outcome = error;
                          wake();
                        });
  bool cancelled = false;
  while (!outcome) {
    if (!cancelled && stopped()) {
      cancelled = true;
      socket_.cancel();
    }
    co_await pause();
  }
  co_return !*outcome;
}

Task<bool> Connection::wait_for_request() {
  if (begin_ < end_) co_return true;
  if (at_end_) co_return false;
  loop_.give_buffer(std::move(buffer_));
  begin_ = end_ = 0;
  idle_ = true;
  idle_since_ = Clock::now();
  set_deadline(service_.limits.idle_timeout);
  // Memory for what comes is taken only once it is there: idle connections are many.
  while (!tls_ && !readable_ && !stopped() && !retiring_) {
    arm_readable();
    co_await pause();
  }
  if (retiring_) readable_ = true;
  const std::ptrdiff_t received = co_await receive(buffer_room());
  idle_ = false;
  if (received <= 0) co_return false;
  end_ += static_cast<std::size_t>(received);
  co_return true;
}

Connection::Step Connection::refuse_with(int status, std::string message) {
  refusal_ = {status, std::move(message)};
  return Step::refused;
}

Connection::Step Connection::interrupted(std::ptrdiff_t received, std::string_view what,
                                         std::chrono::milliseconds limit) {
  if (received == 0 || ending_ || !expired_) return Step::over;
  clear_deadline();
  return refuse_with(408, fmt::format("{} within {} s", what, static_cast<double>(limit.count()) / 1000));
}

Task<Connection::Step> Connection::read_header(Request& request) {
  request.arrived = Clock::now();
  request.peer = peer_;
  set_deadline(service_.limits.header_timeout);
  parser_.begin(request);
  for (;;) {
    std::size_t consumed = 0;
    const auto outcome = parser_.feed(buffered(), consumed);
    begin_ += consumed;
    if (outcome == RequestParser::Outcome::complete) co_return Step::done;
    if (outcome == RequestParser::Outcome::refused) {
      refusal_ = parser_.refusal();
      co_return Step::refused;
    }
    const std::span<char> room = buffer_room();
    if (room.empty()) {
      co_return refuse_with(431, fmt::format("the request line and header fields are longer than {} bytes",
                                             service_.limits.max_header_bytes));
    }
    const std::ptrdiff_t received = co_await receive(room);
    if (received <= 0) {
      co_return interrupted(received, "the request's header did not arrive", service_.limits.header_timeout);
    }
    end_ += static_cast<std::size_t>(received);
  }
}

Connection::Step Connection::refuse_body(BodyBuffer::Outcome outcome) {
  if (outcome == BodyBuffer::Outcome::no_memory) {
    return refuse_with(503, "the server holds as many request bodies as its memory allows; try again later");
  }
  const Limits& limits = service_.limits;
  if (parser_.framing().coding != Framing::Coding::identity && body_received_ <= limits.max_body_bytes) {
    return refuse_with(413,
                       fmt::format("the decompressed body is larger than {} bytes", limits.max_decompressed_bytes));
  }
  return refuse_with(413, fmt::format("the body is larger than {} bytes", limits.max_body_bytes));
}

void Connection::body_progress(std::uint64_t bytes) {
  body_received_ += bytes;
  const Limits& limits = service_.limits;
  deadline_ = body_began_ + limits.body_timeout + at_rate(body_received_, limits.min_bytes_per_second);
  expired_ = false;
}

Task<Connection::Step> Connection::read_body(Request& request) {
  const Framing& framing = parser_.framing();
  const Limits& limits = service_.limits;
  const bool coded = framing.coding != Framing::Coding::identity;
  body_received_ = 0;
  if (framing.content_length > limits.max_body_bytes) {
    body_received_ = framing.content_length;
    co_return refuse_body(BodyBuffer::Outcome::too_large);
  }
  // One byte more than allowed shows that it is too large.
  BodyBuffer body(service_.bodies, framing.aligned_at,
                  (coded ? limits.max_decompressed_bytes : limits.max_body_bytes) + 1);
  const bool plain = !framing.chunked && !coded;
  if (plain) {
    const auto outcome = body.reserve(framing.content_length);
    if (outcome != BodyBuffer::Outcome::taken) co_return refuse_body(outcome);
  }
  body_began_ = Clock::now();
  body_progress(0);
  if (framing.expects_continue && begin_ == end_) {
    queue(interim);
    if (!co_await write_outgoing()) co_return Step::over;
    body_progress(0);
  }
  readable_ = true;  // most often it came with the header
  const Step step = plain ? co_await read_plain_body(body) : co_await read_coded_body(body);
  clear_deadline();
  if (step == Step::done) request.body = body.finish();
  co_return step;
}

Task<Connection::Step> Connection::read_plain_body(BodyBuffer& body) {
  const std::string_view first = buffered().substr(0, body.room().size());
  body.append(bytes_of(first));
  begin_ += first.size();
  body_progress(first.size());
  while (!body.room().empty()) {
    const auto room = body.room();
    const std::ptrdiff_t received = co_await receive({reinterpret_cast<char*>(room.data()), room.size()});
    if (received <= 0)
      co_return interrupted(received, "the request's body did not arrive", service_.limits.body_timeout);
    body.filled(static_cast<std::size_t>(received));
    body_progress(static_cast<std::uint64_t>(received));
  }
  co_return Step::done;
}

Task<Connection::Step> Connection::read_coded_body(BodyBuffer& body) {
  const Framing framing = parser_.framing();
  const Limits& limits = service_.limits;
  ChunkedDecoder chunks(limits.max_header_bytes);
  std::optional<Inflater> inflater;
  if (framing.coding != Framing::Coding::identity) inflater.emplace(framing.coding);
  std::uint64_t left = framing.content_length;
  const auto ended = [&] { return framing.chunked ? chunks.ended() : left == 0; };
  while (!ended()) {
    std::string_view text = buffered();
    if (text.empty()) {
      const std::ptrdiff_t received = co_await receive(buffer_room());
      if (received <= 0) co_return interrupted(received, "the request's body did not arrive", limits.body_timeout);
      end_ += static_cast<std::size_t>(received);
      continue;
    }
    std::string_view part = text.substr(0, left);
    if (framing.chunked) {
      const std::size_t before = text.size();
      part = chunks.next(text);
      begin_ += before - text.size();
      if (chunks.malformed()) co_return refuse_with(400, "the body's chunks are malformed");
    } else {
      begin_ += part.size();
      left -= part.size();
    }
    if (!part.empty()) body_progress(part.size());
    if (body_received_ > limits.max_body_bytes) co_return refuse_body(BodyBuffer::Outcome::too_large);
    if (inflater) {
      const Step step = co_await inflate(*inflater, part, body);
      if (step != Step::done) co_return step;
      continue;
    }
    while (!part.empty()) {
      if (const auto outcome = body.grow(); outcome != BodyBuffer::Outcome::taken) co_return refuse_body(outcome);
      const std::string_view fits = part.substr(0, body.room().size());
      body.append(bytes_of(fits));
      part.remove_prefix(fits.size());
    }
  }
  if (inflater && !inflater->ended()) co_return refuse_with(400, "the compressed body is incomplete");
  co_return Step::done;
}

Task<Connection::Step> Connection::inflate(Inflater& inflater, std::string_view text, BodyBuffer& body) {
  std::span<const std::byte> in = bytes_of(text);
  std::size_t since_yield = 0;
  for (;;) {
    if (const auto outcome = body.grow(); outcome != BodyBuffer::Outcome::taken) co_return refuse_body(outcome);
    const auto room = body.room().first(std::min(body.room().size(), coding_portion));
    const Inflater::Step step = inflater.step(in, room);
    if (step.malformed) co_return refuse_with(400, "the body is not in the form that Content-Encoding names");
    in = in.subspan(step.consumed);
    body.filled(step.produced);
    if (body.size() > service_.limits.max_decompressed_bytes) co_return refuse_body(BodyBuffer::Outcome::too_large);
    if (in.empty() && step.produced < room.size()) co_return Step::done;
    since_yield += step.produced;
    if (since_yield >= 4 * coding_portion) {
      since_yield = 0;
      co_await yield();
      if (ending_) co_return Step::over;
    }
  }
}

// ---- one request after the other -----------------------------------------------------------------------------------

Task<void> Connection::run() {
  const auto self = shared_from_this();
  const Visit visit(*this);
  if (tls_ && !co_await handshake()) co_return;
  while (co_await serve_request()) {
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
  if (service_.admission) {
    std::optional<Response> response;
    try {
      response = service_.admission(request);
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
      co_return co_await send(std::move(response), is_head);
    }
    if (given.watch) watch_client();
    if (ending_ || left_) co_return false;
    co_await pause();
  }
}

Task<void> Connection::compress(Response& response) {
  const bool text = is_text(response.headers["Content-Type"]);
  const bool wanted = response.compression == Compression::always ||
                      (text && response.body_bytes() >= service_.limits.compress_from_bytes);
  if (!wanted || response.headers.find("Content-Encoding") || is_bodiless(response.status)) co_return;
  Deflater deflater;
  std::vector<std::span<const std::byte>> parts{bytes_of(response.text)};
  for (const Piece& piece : response.pieces) parts.push_back(piece.bytes);
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      const auto portion = part.first(std::min(part.size(), coding_portion));
      deflater.add(portion);
      part = part.subspan(portion.size());
      if (!part.empty()) co_await yield();
    }
  }
  response.text = deflater.finish();
  response.pieces.clear();
  response.headers.add("Content-Encoding", "gzip");
  response.headers.add("Vary", "Accept-Encoding");
}

// ---- writing -------------------------------------------------------------------------------------------------------

bool Connection::keeps_alive(const Response& response) const noexcept {
  return parser_.framing().keep_alive && !response.close && !ending_ &&
         !service_.draining.load(std::memory_order_relaxed);
}

void Connection::write_head(const Response& response, bool keep, std::string_view framing) {
  head_.clear();
  auto out = std::back_inserter(head_);
  fmt::format_to(out, FMT_COMPILE("HTTP/1.1 {} {}\r\nDate: {}\r\n"), response.status, reason_phrase(response.status),
                 loop_.date());
  for (std::size_t index = 0; index < response.headers.size(); ++index) {
    const Headers::Field field = response.headers.at(index);
    if (is_the_transports(field.name)) continue;
    head_.append(field.name).append(": ").append(field.value).append("\r\n");
  }
  head_.append(framing);
  if (!keep) {
    head_.append("Connection: close\r\n");
  } else if (!parser_.framing().http_1_1) {
    head_.append("Connection: keep-alive\r\n");
  }
  head_.append("\r\n");
}

void Connection::queue(std::span<const std::byte> bytes) {
  if (!bytes.empty()) outgoing_.push_back(bytes);
}

void Connection::queue(std::string_view text) {
  queue(bytes_of(text));
}

Task<bool> Connection::send(Response response, bool is_head) {
  const bool keep = keeps_alive(response);
  write_head(
      response, keep,
      is_bodiless(response.status) ? std::string() : fmt::format("Content-Length: {}\r\n", response.body_bytes()));
  queue(head_);
  if (!is_head && !is_bodiless(response.status)) {
    queue(response.text);
    for (const Piece& piece : response.pieces) queue(piece.bytes);
  }
  const bool written = co_await write_outgoing();
  may_linger_ = written && !keep;
  co_return written&& keep;
}

Task<bool> Connection::stream(std::shared_ptr<Answer> answer, Answer::Given given) {
  const bool chunked = parser_.framing().http_1_1;
  Response head = given.response ? std::move(*given.response) : Response{};
  head.close = head.close || !chunked;
  const bool keep = keeps_alive(head);
  const bool bodiless = answer->request.is_head || is_bodiless(head.status);
  may_probe_ = false;  // an interim response has no place behind a final one
  write_head(head, keep, chunked && !is_bodiless(head.status) ? "Transfer-Encoding: chunked\r\n" : "");
  queue(head_);
  if (!co_await write_outgoing()) co_return false;
  for (;;) {
    std::uint64_t bytes = 0;
    for (const Piece& piece : given.pieces) bytes += piece.bytes.size();
    if (given.broken) co_return false;
    if (!bodiless && !co_await send_pieces(std::move(given.pieces), chunked, given.finished)) co_return false;
    answer->written(bytes);
    if (given.finished) break;
    given = answer->take();
    while (given.pieces.empty() && !given.finished && !given.broken) {
      if (ending_ || left_) co_return false;
      watch_client();
      co_await pause();
      given = answer->take();
    }
  }
  watching_ = false;
  watching_clock_ = false;
  answer_.reset();
  answer->done();
  may_linger_ = !keep;
  co_return keep;
}

Task<bool> Connection::send_pieces(std::vector<Piece> pieces, bool chunked, bool finished) {
  std::uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes.size();
  const std::string size = fmt::format("{:x}\r\n", bytes);
  if (chunked && bytes > 0) queue(size);
  for (const Piece& piece : pieces) queue(piece.bytes);
  if (chunked && bytes > 0) queue("\r\n");
  if (chunked && finished) queue("0\r\n\r\n");
  co_return co_await write_outgoing();
}

Connection::Progress Connection::try_write() {
  constexpr std::size_t most_parts = 64;
  while (next_outgoing_ < outgoing_.size()) {
    std::array<iovec, most_parts> parts;
    std::size_t count = 0;
    for (std::size_t at = next_outgoing_; at < outgoing_.size() && count < most_parts; ++at, ++count) {
      parts[count] = {const_cast<std::byte*>(outgoing_[at].data()), outgoing_[at].size()};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? Progress::blocked : Progress::failed;
    }
    written_bytes_ += static_cast<std::uint64_t>(sent);
    loop_.sent_bytes.add(static_cast<std::uint64_t>(sent));
    auto left = static_cast<std::size_t>(sent);
    while (left > 0) {
      auto& part = outgoing_[next_outgoing_];
      const std::size_t done = std::min(left, part.size());
      part = part.subspan(done);
      left -= done;
      if (part.empty()) ++next_outgoing_;
    }
  }
  return Progress::finished;
}

Task<bool> Connection::write_outgoing() {
  next_outgoing_ = 0;
  written_bytes_ = 0;
  bool written = false;
  if (tls_) {
    written = co_await write_tls();
  } else {
    const Progress progress = try_write();
    written = progress == Progress::finished || (progress == Progress::blocked && co_await write_blocked());
  }
  outgoing_.clear();
  co_return written;
}

Task<bool> Connection::write_blocked() {
  const Limits& limits = service_.limits;
  write_began_ = Clock::now();
  for (;;) {
    deadline_ = write_began_ + limits.write_timeout + at_rate(written_bytes_, limits.min_bytes_per_second);
    expired_ = false;
    writable_ = false;
    while (!writable_ && !stopped()) {
      arm_writable();
      co_await pause();
    }
    if (stopped()) {
      ending_ = true;
      co_return false;
    }
    const Progress progress = try_write();
    if (progress == Progress::blocked) continue;
    clear_deadline();
    ending_ = ending_ || progress == Progress::failed;
    co_return progress == Progress::finished;
  }
}

Task<bool> Connection::write_tls() {
  const Limits& limits = service_.limits;
  write_began_ = Clock::now();
  std::array<std::byte, tls_portion> portion;
  while (next_outgoing_ < outgoing_.size()) {
    // Records of full length, rather than one a part.
    std::size_t filled = 0;
    while (next_outgoing_ < outgoing_.size() && filled < portion.size()) {
      auto& part = outgoing_[next_outgoing_];
      const auto fits = part.first(std::min(part.size(), portion.size() - filled));
      std::copy(fits.begin(), fits.end(), portion.begin() + static_cast<std::ptrdiff_t>(filled));
      filled += fits.size();
      part = part.subspan(fits.size());
      if (part.empty()) ++next_outgoing_;
    }
    std::size_t sent = 0;
    while (sent < filled) {
      deadline_ = write_began_ + limits.write_timeout + at_rate(written_bytes_, limits.min_bytes_per_second);
      expired_ = false;
      std::optional<std::pair<ErrorNumber, std::size_t>> outcome;
      tls_->async_write_some(net::buffer(portion.data() + sent, filled - sent),
                             [this, self = shared_from_this(), &outcome](const ErrorNumber& error, std::size_t count) {
                               outcome.emplace(error, count);
                               wake();
                             });
      bool cancelled = false;
      while (!outcome) {
        if (!cancelled && stopped()) {
          cancelled = true;
          socket_.cancel();
        }
        co_await pause();
      }
      if (outcome->first) {
        ending_ = true;
        co_return false;
      }
      sent += outcome->second;
      written_bytes_ += outcome->second;
      loop_.sent_bytes.add(outcome->second);
    }
  }
  clear_deadline();
  co_return true;
}

Task<void> Connection::linger() {
  // Closed at once with bytes unread, the kernel would reset the connection and with it the answer under way.
  set_deadline(linger_limit);
  if (tls_) {
    std::optional<ErrorNumber> outcome;
    tls_->async_shutdown([this, self = shared_from_this(), &outcome](const ErrorNumber& error) {
      outcome = error;
      wake();
    });
    bool cancelled = false;
    while (!outcome) {
      if (!cancelled && stopped()) {
        cancelled = true;
        socket_.cancel();
      }
      co_await pause();
    }
    tls_.reset();
  }
  ::shutdown(socket_.native_handle(), SHUT_WR);
  begin_ = end_ = 0;
  readable_ = true;
  while (!at_end_ && !stopped()) {
    if (co_await receive(buffer_room()) <= 0) break;
  }
}

}  // namespace gpux::http
