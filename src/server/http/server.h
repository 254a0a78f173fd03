#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/memory_budget.h"
#include "gpux/error.h"
#include "server/http/message.h"

namespace gpux::http {

/// Limits of one client and of all together. Timeouts are kept to within a twentieth of the shortest.
struct Limits {
  std::uint64_t max_header_bytes = 16 << 10;                       ///< request line and fields; beyond: 431
  std::uint64_t max_body_bytes = std::uint64_t{64} << 20;          ///< as sent; beyond: 413, unread
  std::uint64_t max_decompressed_bytes = std::uint64_t{64} << 20;  ///< a gzip or deflate body undone; beyond: 413
  std::uint32_t max_connections = 10'000;                          ///< beyond: 503 and closed

  std::chrono::milliseconds header_timeout{10'000};  ///< from a request's first byte to the end of its header
  std::chrono::milliseconds idle_timeout{75'000};    ///< between requests
  /// How far the transfer of a body may fall behind `min_bytes_per_second`, however fast it began.
  std::chrono::milliseconds body_timeout{10'000};
  /// How far the transfer of an answer may fall behind `min_bytes_per_second`. A streamed answer has it for each time
  /// that something waits to be written.
  std::chrono::milliseconds write_timeout{10'000};
  std::uint64_t min_bytes_per_second = 32 << 10;
  /// When memory is short, the slowest transfer below this rate that holds 64 KiB or more is given up: a body with 503,
  /// an answer by closing its connection.
  std::uint64_t slow_bytes_per_second = 1 << 20;

  std::uint64_t stream_queue_bytes = 256 << 10;  ///< Exchange::write says wait beyond this
  std::uint64_t compress_from_bytes = 16 << 10;  ///< smallest body that Compression::automatic compresses
};

/// One request and the place for its answer. All members may be called from any thread, and at any time: also after
/// the client, the connection or the server has gone. Let go without an answer, it answers 500.
class Exchange {
 public:
  Exchange() = default;
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] virtual const Request& request() const noexcept = 0;

  /// Sends the answer. Only the first of respond and start counts; a later one is ignored.
  virtual void respond(Response response) = 0;

  /// `callback` runs once, on an I/O thread, when the client has left before the answer was given (or before a streamed
  /// one was finished); at once, on this thread, where it has left already; never after a whole answer. Only one is
  /// kept: the last. A client that merely ended its sending side is not gone: it is found out by an interim
  /// "100 Continue" that it may ignore (HTTP/1.0 clients and TLS: see source).
  virtual void on_gone(std::function<void()> callback) = 0;

  /// Begins a streamed answer: status and fields of `head` are sent at once, its body as the first piece. Never
  /// compressed. Pieces are sent as they come (chunked, or up to the end of the connection for HTTP/1.0).
  virtual void start(Response head) = 0;

  enum class Flow : int {
    go,    ///< taken, there is room for more
    wait,  ///< taken; write no more before on_room's callback has run
    gone,  ///< dropped: the client has left, the answer is finished, or was never started
  };
  /// A producer that goes on despite `wait` loses the client at 16 times Limits::stream_queue_bytes.
  virtual Flow write(Piece piece) = 0;
  /// `callback` runs on an I/O thread each time that the queue has emptied after a `wait`, and when the client left.
  virtual void on_room(std::function<void()> callback) = 0;
  /// Ends a streamed answer.
  virtual void finish() = 0;

  /// A streamed answer ends by an error, which its last part says; finish() follows. Sends nothing: it is for those
  /// that keep account of answers. `status`: that the error would have had as an answer of its own.
  virtual void broken(int /*status*/, const Error& /*error*/) {}
};

/// Called on an I/O thread when a request is whole. Must not block: what takes longer goes to a thread of its own and
/// answers from there. An exception is answered with 500 and logged.
using Handler = std::function<void(std::shared_ptr<Exchange>)>;

/// Whether a request may send its body.
struct Admitted {
  Admitted() = default;

  /// A refusal, where there is an answer.
  Admitted(std::optional<Response> answer) : refusal(std::move(answer)) {}

  Admitted(Response answer) : refusal(std::move(answer)) {}

  std::optional<Response> refusal;
  /// Maximum size of the body, both as sent and decompressed; beyond it, or beyond Limits: 413.
  std::uint64_t max_body_bytes = UINT64_MAX;
  /// What was found out about the request, for the handler, which knows its type; null: nothing.
  std::shared_ptr<const void> admission;
};

/// Called on an I/O thread when the header is read and the body is not (`body` is empty). A refusal is the answer
/// before memory is spent on the request; the connection is closed after it where a body follows. Must not block.
using Admission = std::function<Admitted(const Request&)>;

/// How many threads read and write where ServerOptions::threads is 0: one a usable processor, at most 4.
[[nodiscard]] unsigned threads_by_default();

/// An answer that is ready shortly before its request's deadline, or after it, has so much time to be written.
inline constexpr std::chrono::seconds write_grace{1};

/// The limit of a MemoryBudget where nothing else is said.
inline constexpr std::uint64_t default_memory_bytes = std::uint64_t{1} << 30;

struct ServerOptions {
  std::string host = "127.0.0.1";            ///< an address or a name; "0.0.0.0" and "::" for all
  std::optional<std::uint16_t> port = 8080;  ///< 0: a free one; none: no TCP
  std::filesystem::path unix_path;           ///< besides; empty: none. A stale socket there is replaced, a live one not
  unsigned threads = 0;                      ///< that read and write; 0: threads_by_default()
  /// PEM files, both or none; TLS 1.2 and newer on the TCP port. Read again when they have changed; a pair that cannot
  /// be used then is logged and the old one kept.
  std::filesystem::path tls_certificate;  ///< the chain, own certificate first
  std::filesystem::path tls_key;
  /// PEM: clients of the TCP port need a certificate of one of these. Empty: they need none. Read again likewise.
  std::filesystem::path tls_client_ca;
  /// How long a thread that has nothing to do looks out for more before it sleeps, where that has lately paid off; 0:
  /// not at all.
  std::chrono::microseconds busy_poll{50};
  /// For bodies as they arrive and answers that wait to be written, with whatever else takes from it; null: one of
  /// default_memory_bytes. Where it is used up slow transfers are given up (Limits::slow_bytes_per_second); requests
  /// that find none left after a tenth of a second are answered with 503.
  std::shared_ptr<MemoryBudget> memory;
  Limits limits;
};

/// Counters of an HTTP server since its start; those called "now" are current values.
struct Counters {
  std::uint64_t connections_open = 0;  ///< now
  std::uint64_t connections_accepted = 0;
  std::uint64_t connections_refused = 0;  ///< beyond Limits::max_connections
  std::uint64_t requests = 0;             ///< whose header was read
  std::uint64_t requests_refused = 0;     ///< answered by the transport or by Admission
  std::uint64_t handled = 0;              ///< requests that were whole and given to the handler
  std::uint64_t answered = 0;             ///< of those, whose answer was written whole
  // Connections that were closed in the middle of an answer.
  std::uint64_t cut_off_at_deadline = 0;  ///< Response::deadline
  std::uint64_t cut_off_as_slow = 0;      ///< Limits::write_timeout
  std::uint64_t cut_off_for_memory = 0;   ///< Limits::slow_bytes_per_second
  std::uint64_t received_bytes = 0;       ///< without TLS's own
  std::uint64_t sent_bytes = 0;
  std::uint64_t held_bytes = 0;  ///< now, of ServerOptions::memory
};

/// HTTP/1.1 over TCP, TLS and unix sockets: keep-alive, pipelining (a connection's requests are handled one after the
/// other), Expect: 100-continue, chunked, gzip and deflate bodies. What the transport itself refuses is answered with
/// {"error": "…"} and a status documented in Limits; malformed requests with 400, unknown encodings with 415.
class Server {
 public:
  /// Binds, so that a port in use is known here. Errors usage (the address), permission, network (the port
  /// or socket is in use), invalid_config (certificate or key), storage.
  Server(ServerOptions options, Handler handler, Admission admission = nullptr);
  /// Ends now: what is in flight is cut off. The unix socket's file is removed.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// The TCP port; 0 where there is none.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// Begins to accept. Connections made since the constructor have waited. Once.
  void start();
  /// From here on, each answer says "Connection: close", so that clients whose connections a proxy passes on go to
  /// another server before a drain closes them. Still accepts. From any thread.
  void close_after_answers() noexcept;
  /// Stops to accept, closes idle connections, answers what is in flight and what still comes on connections just used
  /// with "Connection: close", and waits for that. True where all have ended by `deadline`. Blocks; from no I/O thread.
  bool drain(std::chrono::steady_clock::time_point deadline);
  [[nodiscard]] Counters counters() const noexcept;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace gpux::http
