#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/answer.h"
#include "server/http/asio.h"
#include "server/http/body.h"
#include "server/http/chunked.h"
#include "server/http/content_coding.h"
#include "server/http/loop.h"
#include "server/http/refusal.h"
#include "server/http/request_parser.h"
#include "server/http/transfer_pace.h"

namespace gpux::http {

/// The interim response that tells a client to send the body. It is no part of an answer, and may be sent at any time
/// before one.
inline constexpr std::string_view interim_response = "HTTP/1.1 100 Continue\r\n\r\n";

/// One client. Lives on its loop's thread; a coroutine reads, hands over and writes, request after request. It sleeps
/// in pause() and is woken by whatever happens: the socket, the handler, the clock.
class Connection final : public AnswerListener, public std::enable_shared_from_this<Connection> {
 public:
  static void launch(Service& service, Loop& loop, Socket socket, net::ssl::context* tls, std::string peer);
  Connection(Service& service, Loop& loop, Socket socket, net::ssl::context* tls, std::string peer);

  void answer_came() override;

  /// Whether remind() has something to say: a deadline has passed, a drain wants it closed, its client is to be
  /// looked after.
  [[nodiscard]] bool is_due(Clock::time_point now, bool draining) const noexcept;
  void remind(Clock::time_point now, bool draining);

  /// Bytes per second of a slow transfer that holds memory of the budget; none where there is no such transfer.
  [[nodiscard]] std::optional<double> slow_rate(Clock::time_point now) const;
  /// Gives that transfer up, so that its memory is released.
  void give_up_transfer();
  /// Ends it, whatever it does.
  void end();

 private:
  enum class Step : int {
    done,
    refused,  ///< see refusal_
    over,     ///< nobody is there to answer
  };
  using Waiter = net::async_result<net::use_awaitable_t<Executor>, void()>::handler_type;
  class Visit;

  Task<void> run();
  Task<bool> handshake();
  Task<bool> serve_request();
  Task<bool> wait_for_request();
  Task<Step> read_header(Request& request);
  Task<Step> read_body(Request& request);
  Task<Step> read_plain_body(BodyBuffer& body);
  Task<bool> wait_until_readable();
  /// BodyBuffer::grow(), which waits a little for others to release memory where there is none.
  Task<BodyBuffer::Outcome> grow(BodyBuffer& body);
  /// Takes from the budget what an answer holds until it is written; waits like grow().
  Task<bool> take_memory(MemoryShare& share, std::uint64_t bytes);
  /// Asks for memory to be released, and waits some milliseconds.
  Task<void> wait_for_memory();
  Task<Step> read_coded_body(BodyBuffer& body);
  Task<Step> inflate(Inflater& inflater, std::string_view text, BodyBuffer& body);
  Task<bool> hand_over(std::shared_ptr<Answer> answer);
  Task<bool> refuse();
  Task<bool> send(Response response, bool is_head, bool counts = false);
  Task<bool> stream(std::shared_ptr<Answer> answer, Answer::Given given);
  Task<bool> send_pieces(std::vector<Piece> pieces, bool chunked, bool finished);
  Task<void> compress(Response& response);
  Task<void> linger();

  /// Bytes read into `room`; 0 at the end; -1 where the wait was ended or the connection failed.
  Task<std::ptrdiff_t> receive(std::span<char> room);
  Task<std::ptrdiff_t> receive_tls(std::span<char> room);
  /// Writes `outgoing_`. False where that failed.
  Task<bool> write_outgoing();
  Task<bool> write_blocked();
  /// Takes the memory of what is left to write, and begins its pace. False, and the connection ends, without memory.
  Task<bool> begin_blocked_write();
  Task<bool> write_tls();
  /// Ends the connection in the middle of an answer, and counts why.
  void cut_off();
  Task<void> yield();

  enum class Progress : int { finished, blocked, failed };
  Progress try_write();

  Step refuse_with(int status, std::string message);
  Step refuse_body(BodyBuffer::Outcome outcome);
  /// Handles a read in the middle of a request that received nothing: a timeout, a closed connection or an error.
  /// `received`: result of the read.
  Step interrupted(std::ptrdiff_t received, std::string_view what, std::chrono::milliseconds limit);
  void write_head(const Response& response, bool keep, std::string_view framing);
  void queue(std::string_view text);
  void queue(std::span<const std::byte> bytes);
  void body_progress(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t max_body_bytes() const noexcept;
  [[nodiscard]] std::uint64_t max_decompressed_bytes() const noexcept;
  [[nodiscard]] Clock::time_point write_deadline() const noexcept;

  [[nodiscard]] bool stopped() const noexcept { return ending_ || expired_ || given_up_; }

  [[nodiscard]] bool keeps_alive(const Response& response) const noexcept;

  [[nodiscard]] std::string_view buffered() const noexcept { return {buffer_.get() + begin_, end_ - begin_}; }

  [[nodiscard]] std::span<char> buffer_room();
  void set_deadline(std::chrono::milliseconds from_now);
  void clear_deadline() noexcept;

  struct TlsOutcome {
    ErrorNumber error;
    std::size_t bytes = 0;
    bool stopped = false;  ///< before it was done
  };

  /// `operation` starts one of the TLS stream's with the handler it is given. What it works on stays in use until it
  /// has ended, so it is waited for even where the connection was stopped.
  template <typename Operation>
  Task<TlsOutcome> tls_operation(Operation operation);
  Task<void> pause();
  void wake();
  void arm_readable();
  void arm_writable();
  void arm_error();
  void watch_client();
  void check_client();
  void client_left();

  Service& service_;
  Loop& loop_;
  Socket socket_;
  std::optional<TlsStream> tls_;
  bool is_tcp_ = true;
  std::shared_ptr<const std::string> peer_;
  std::shared_ptr<const std::string> certificate_name_;  // of the client; null: it has sent none
  std::list<Connection*>::iterator place_;
  std::optional<Waiter> waiter_;

  RequestParser parser_;
  Loop::Buffer buffer_;
  std::size_t begin_ = 0;  ///< of what is read and not used
  std::size_t end_ = 0;

  std::string head_;
  std::vector<std::span<const std::byte>> outgoing_;
  std::size_t next_outgoing_ = 0;
  std::uint64_t written_bytes_ = 0;
  MemoryShare outgoing_share_;
  std::optional<Clock::time_point> answer_deadline_;
  std::uint64_t admitted_body_bytes_ = 0;
  std::uint64_t body_received_ = 0;
  Clock::time_point received_at_;
  TransferPace pace_;                ///< of the body that arrives, or the answer that is written
  std::uint64_t transfer_held_ = 0;  ///< bytes of the budget that this transfer holds; 0 while there is none

  Refusal refusal_;
  std::shared_ptr<Answer> answer_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point idle_since_;
  bool idle_ = false;      ///< between two requests, nothing read of the next
  bool expired_ = false;   ///< the deadline has passed
  bool given_up_ = false;  ///< the transfer is to end, as memory is short
  bool ending_ = false;    ///< no more may be done
  bool retiring_ = false;  ///< to be closed unless a request is there
  bool may_linger_ = false;
  bool at_end_ = false;  ///< the client sends no more

  bool readable_ = false;
  bool writable_ = false;
  bool reading_armed_ = false;
  bool writing_armed_ = false;
  bool error_armed_ = false;

  bool watching_ = false;        ///< for the client to leave
  bool watching_clock_ = false;  ///< by asking now and then: bytes that wait hide its end
  bool may_probe_ = false;
  bool left_ = false;
};

template <typename Operation>
Task<Connection::TlsOutcome> Connection::tls_operation(Operation operation) {
  std::optional<TlsOutcome> outcome;
  operation([this, self = shared_from_this(), &outcome](const ErrorNumber& error, std::size_t bytes = 0) {
    outcome.emplace(TlsOutcome{error, bytes});
    wake();
  });
  bool cancelled = false;
  while (!outcome) {
    if (!cancelled && (stopped() || (retiring_ && idle_))) {
      cancelled = true;
      socket_.cancel();
    }
    co_await pause();
  }
  outcome->stopped = cancelled && outcome->error;
  co_return *outcome;
}

}  // namespace gpux::http
