// Connection: reading requests.
#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>

#include "server/http/connection.h"
#include "server/http/tls.h"

namespace gpux::http {

namespace {

constexpr std::size_t inflated_portion = 64 << 10;
/// Inflated without giving others their turn.
constexpr std::size_t inflated_at_once = 256 << 10;

}  // namespace

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
        received_at_ = Clock::now();
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
  const TlsOutcome outcome = co_await tls_operation(
      [&](auto handler) { tls_->async_read_some(net::buffer(room.data(), room.size()), std::move(handler)); });
  if (outcome.stopped) co_return -1;
  at_end_ = static_cast<bool>(outcome.error);
  loop_.received_bytes.add(outcome.bytes);
  received_at_ = Clock::now();
  co_return static_cast<std::ptrdiff_t>(outcome.bytes);
}

Task<bool> Connection::handshake() {
  set_deadline(service_.limits.header_timeout);
  const TlsOutcome outcome = co_await tls_operation([&](auto handler) {
    tls_->async_handshake(net::ssl::stream_base::server,
                          [handler = std::move(handler)](const ErrorNumber& error) mutable { handler(error); });
  });
  if (!outcome.error && tls_) certificate_name_ = client_name(tls_->native_handle());
  co_return !outcome.error;
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
  if (given_up_ && !ending_) {
    given_up_ = false;
    return refuse_with(503, "the server's memory is short, and this body came too slowly; try again later");
  }
  if (received == 0 || ending_ || !expired_) return Step::over;
  clear_deadline();
  return refuse_with(408, fmt::format("{} within {} s", what, static_cast<double>(limit.count()) / 1000));
}

Task<Connection::Step> Connection::read_header(Request& request) {
  request.arrived = Clock::now();
  request.peer = peer_;
  request.certificate_name = certificate_name_;
  set_deadline(service_.limits.header_timeout);
  parser_.begin(request);
  for (;;) {
    std::size_t consumed = 0;
    const auto outcome = parser_.feed(buffered(), consumed);
    begin_ += consumed;
    if (outcome == RequestParser::Outcome::complete) {
      request.received = received_at_;
      co_return Step::done;
    }
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
    return refuse_with(503, "the server holds as many requests and answers as its memory allows; try again later");
  }
  if (parser_.framing().coding != Framing::Coding::identity && body_received_ <= max_body_bytes()) {
    return refuse_with(413, fmt::format("the decompressed body is larger than {} bytes", max_decompressed_bytes()));
  }
  return refuse_with(413, fmt::format("the body is larger than {} bytes", max_body_bytes()));
}

std::uint64_t Connection::max_body_bytes() const noexcept {
  return std::min(service_.limits.max_body_bytes, admitted_body_bytes_);
}

std::uint64_t Connection::max_decompressed_bytes() const noexcept {
  return std::min(service_.limits.max_decompressed_bytes, admitted_body_bytes_);
}

void Connection::body_progress(std::uint64_t bytes) {
  body_received_ += bytes;
  pace_.add(received_at_, bytes);
  deadline_ = pace_.deadline();
  expired_ = false;
}

Task<Connection::Step> Connection::read_body(Request& request) {
  const Framing& framing = parser_.framing();
  const bool coded = framing.coding != Framing::Coding::identity;
  body_received_ = 0;
  if (framing.content_length > max_body_bytes()) {
    body_received_ = framing.content_length;
    co_return refuse_body(BodyBuffer::Outcome::too_large);
  }
  const bool plain = !framing.chunked && !coded;
  // One byte more than allowed shows that it is too large.
  BodyBuffer body(service_.memory, framing.aligned_at,
                  plain ? framing.content_length : (coded ? max_decompressed_bytes() : max_body_bytes()) + 1,
                  plain ? framing.content_length : 0);
  received_at_ = Clock::now();
  pace_ = TransferPace(received_at_, service_.limits.body_timeout, service_.limits.min_bytes_per_second);
  body_progress(0);
  if (framing.expects_continue && begin_ == end_) {
    queue(interim_response);
    if (!co_await write_outgoing()) co_return Step::over;
    pace_ = TransferPace(Clock::now(), service_.limits.body_timeout, service_.limits.min_bytes_per_second);
    body_progress(0);
  }
  readable_ = begin_ < end_;  // most often it came with the header
  const Step step = plain ? co_await read_plain_body(body) : co_await read_coded_body(body);
  readable_ = false;  // whether more is there is not known
  transfer_held_ = 0;
  given_up_ = false;
  clear_deadline();
  if (step == Step::done) request.body = body.finish();
  co_return step;
}

Task<Connection::Step> Connection::read_plain_body(BodyBuffer& body) {
  const std::uint64_t size = parser_.framing().content_length;
  while (body.size() < size) {
    // Memory is taken once there is something to fill it.
    if (begin_ == end_ && !tls_ && !co_await wait_until_readable()) {
      co_return interrupted(-1, "the request's body did not arrive", service_.limits.body_timeout);
    }
    if (const auto outcome = co_await grow(body); outcome != BodyBuffer::Outcome::taken) co_return refuse_body(outcome);
    const auto room = body.room();
    if (const std::string_view first = buffered().substr(0, room.size()); !first.empty()) {
      body.append(bytes_of(first));
      begin_ += first.size();
      body_progress(first.size());
      continue;
    }
    const std::ptrdiff_t received = co_await receive({reinterpret_cast<char*>(room.data()), room.size()});
    if (received <= 0)
      co_return interrupted(received, "the request's body did not arrive", service_.limits.body_timeout);
    body.filled(static_cast<std::size_t>(received));
    body_progress(static_cast<std::uint64_t>(received));
  }
  co_return Step::done;
}

Task<bool> Connection::wait_until_readable() {
  while (!readable_ && !stopped()) {
    arm_readable();
    co_await pause();
  }
  co_return !stopped();
}

Task<Connection::Step> Connection::read_coded_body(BodyBuffer& body) {
  const Framing framing = parser_.framing();
  const Limits& limits = service_.limits;
  ChunkedDecoder chunks(limits.max_header_bytes);
  std::optional<Inflater> inflater;
  MemoryShare inflater_share(service_.memory);
  if (framing.coding != Framing::Coding::identity) {
    if (!co_await take_memory(inflater_share, Inflater::memory_bytes)) {
      co_return refuse_body(BodyBuffer::Outcome::no_memory);
    }
    inflater.emplace(framing.coding);
  }
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
    if (body_received_ > max_body_bytes()) co_return refuse_body(BodyBuffer::Outcome::too_large);
    if (inflater) {
      const Step step = co_await inflate(*inflater, part, body);
      if (step != Step::done) co_return step;
      continue;
    }
    while (!part.empty()) {
      if (const auto outcome = co_await grow(body); outcome != BodyBuffer::Outcome::taken)
        co_return refuse_body(outcome);
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
    if (const auto outcome = co_await grow(body); outcome != BodyBuffer::Outcome::taken) co_return refuse_body(outcome);
    const auto room = body.room().first(std::min(body.room().size(), inflated_portion));
    const Inflater::Step step = inflater.step(in, room);
    if (step.malformed) co_return refuse_with(400, "the body is not in the form that Content-Encoding names");
    in = in.subspan(step.consumed);
    body.filled(step.produced);
    if (body.size() > max_decompressed_bytes()) co_return refuse_body(BodyBuffer::Outcome::too_large);
    if (in.empty() && step.produced < room.size()) co_return Step::done;
    since_yield += step.produced;
    if (since_yield >= inflated_at_once) {
      since_yield = 0;
      co_await yield();
      if (ending_) co_return Step::over;
    }
  }
}

}  // namespace gpux::http
