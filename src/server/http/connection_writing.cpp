// Connection: writing answers.
#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

#include <fmt/compile.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "server/http/connection.h"

namespace gpux::http {

namespace {

constexpr std::chrono::milliseconds linger_limit{2000};
/// Compressed without giving others their turn.
constexpr std::size_t compressed_at_once = 64 << 10;
constexpr std::size_t tls_portion = 16 << 10;
/// Longer answers take from the budget before anything is written, so that they can still be refused.
constexpr std::uint64_t long_answer = 64 << 10;

std::optional<Clock::time_point> write_deadline_of(const Response& response) {
  return response.deadline ? std::optional(std::max(*response.deadline, Clock::now()) + write_grace) : std::nullopt;
}

bool is_bodiless(int status) noexcept {
  return status == 204 || status == 304;
}

bool is_the_transports(std::string_view name) noexcept {
  return same_name(name, "Content-Length") || same_name(name, "Transfer-Encoding") || same_name(name, "Connection") ||
         same_name(name, "Date");
}

}  // namespace

Task<void> Connection::compress(Response& response) {
  const bool text = is_text(response.headers["Content-Type"]);
  const bool wanted = response.compression == Compression::always ||
                      (text && response.body_bytes() >= service_.limits.compress_from_bytes);
  if (!wanted || response.headers.find("Content-Encoding") || is_bodiless(response.status)) co_return;
  MemoryShare share(service_.memory);
  // What is short is spent on answers themselves.
  if (!share.grow(Deflater::memory_bytes)) co_return;
  Deflater deflater;
  std::vector<std::span<const std::byte>> parts{bytes_of(response.text)};
  for (const Piece& piece : response.pieces) parts.push_back(piece.bytes);
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      const auto portion = part.first(std::min(part.size(), compressed_at_once));
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

bool Connection::keeps_alive(const Response& response) const noexcept {
  return parser_.framing().keep_alive && !response.close && !ending_ &&
         !service_.leaving.load(std::memory_order_relaxed);
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

Task<bool> Connection::send(Response response, bool is_head, bool counts) {
  const std::uint64_t held = response.body_bytes();
  if (held > long_answer && !co_await take_memory(outgoing_share_, held)) {
    response =
        Response::error(503, "the server holds as many requests and answers as its memory allows; try again later");
    response.headers.add("Retry-After", "1");
  }
  answer_deadline_ = write_deadline_of(response);
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
  if (written && counts) loop_.answered.add(1);
  may_linger_ = written && !keep;
  co_return written&& keep;
}

Task<bool> Connection::stream(std::shared_ptr<Answer> answer, Answer::Given given) {
  const bool chunked = parser_.framing().http_1_1;
  Response head = given.response ? std::move(*given.response) : Response{};
  head.close = head.close || !chunked;
  answer_deadline_ = write_deadline_of(head);
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
    if (answer_deadline_ && *answer_deadline_ <= Clock::now()) {
      expired_ = true;
      cut_off();
      co_return false;
    }
    if (!bodiless && !co_await send_pieces(std::move(given.pieces), chunked, given.finished)) co_return false;
    answer->written(bytes);
    if (given.finished) break;
    given = answer->take();
    while (given.pieces.empty() && !given.finished && !given.broken) {
      if (ending_ || left_) co_return false;
      if (expired_) {
        cut_off();
        co_return false;
      }
      if (answer_deadline_) deadline_ = *answer_deadline_;
      watch_client();
      co_await pause();
      given = answer->take();
    }
    clear_deadline();
  }
  watching_ = false;
  watching_clock_ = false;
  answer_.reset();
  answer->done();
  loop_.answered.add(1);
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
  constexpr std::size_t max_parts = 64;
  while (next_outgoing_ < outgoing_.size()) {
    std::array<iovec, max_parts> parts;
    std::size_t count = 0;
    for (std::size_t at = next_outgoing_; at < outgoing_.size() && count < max_parts; ++at, ++count) {
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
  outgoing_share_.release();
  transfer_held_ = 0;
  given_up_ = false;
  co_return written;
}

Task<bool> Connection::write_blocked() {
  if (!co_await begin_blocked_write()) co_return false;
  for (;;) {
    deadline_ = write_deadline();
    expired_ = false;
    writable_ = false;
    while (!writable_ && !stopped()) {
      arm_writable();
      co_await pause();
    }
    if (stopped()) {
      cut_off();
      co_return false;
    }
    const std::uint64_t before = written_bytes_;
    const Progress progress = try_write();
    pace_.add(Clock::now(), written_bytes_ - before);
    if (progress == Progress::blocked) continue;
    clear_deadline();
    ending_ = ending_ || progress == Progress::failed;
    co_return progress == Progress::finished;
  }
}

void Connection::cut_off() {
  if (given_up_) {
    loop_.cut_off_for_memory.add(1);
  } else if (expired_ && answer_deadline_ && *answer_deadline_ <= Clock::now()) {
    loop_.cut_off_at_deadline.add(1);
  } else if (expired_) {
    loop_.cut_off_as_slow.add(1);
  }
  ending_ = true;
}

Clock::time_point Connection::write_deadline() const noexcept {
  return answer_deadline_ ? std::min(*answer_deadline_, pace_.deadline()) : pace_.deadline();
}

Task<bool> Connection::begin_blocked_write() {
  pace_ = TransferPace(Clock::now(), service_.limits.write_timeout, service_.limits.min_bytes_per_second);
  if (outgoing_share_.bytes() == 0) {
    std::uint64_t bytes = 0;
    for (std::size_t at = next_outgoing_; at < outgoing_.size(); ++at) bytes += outgoing_[at].size();
    if (!co_await take_memory(outgoing_share_, bytes)) {
      given_up_ = !ending_;
      cut_off();
      co_return false;
    }
  }
  transfer_held_ = outgoing_share_.bytes();
  co_return true;
}

Task<bool> Connection::write_tls() {
  if (!co_await begin_blocked_write()) co_return false;
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
    for (std::size_t sent = 0; sent < filled;) {
      deadline_ = write_deadline();
      expired_ = false;
      const TlsOutcome outcome = co_await tls_operation([&](auto handler) {
        tls_->async_write_some(net::buffer(portion.data() + sent, filled - sent), std::move(handler));
      });
      if (outcome.error) {
        cut_off();
        co_return false;
      }
      sent += outcome.bytes;
      pace_.add(Clock::now(), outcome.bytes);
      loop_.sent_bytes.add(outcome.bytes);
    }
  }
  clear_deadline();
  co_return true;
}

Task<void> Connection::linger() {
  // Closed at once with bytes unread, the kernel would reset the connection and with it the answer under way.
  set_deadline(linger_limit);
  if (tls_) {
    co_await tls_operation([&](auto handler) {
      tls_->async_shutdown([handler = std::move(handler)](const ErrorNumber& error) mutable { handler(error); });
    });
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
