#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/eventually.h"
#include "server/http/server.h"

namespace gpux::http {

using test::eventually;

/// An answer as it came over the wire.
struct Answered {
  int status = 0;                              ///< 0: the connection ended before one
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;                            ///< chunks joined
  bool complete = false;

  [[nodiscard]] std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

/// A socket in the hands of a test: it sends whatever it is told, in the portions it is told.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer_bytes = 0);
  explicit RawClient(const std::filesystem::path& unix_path);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  /// False where the server has closed the connection.
  bool send(std::string_view text) const;
  /// The next answer that is not interim; `head`: its header announces a body that does not follow.
  Answered receive(bool head = false);
  /// Everything up to the end of the connection.
  std::string receive_all();
  /// Whatever comes first, at most `limit` bytes; empty at the end or after `wait`.
  std::string receive_some(std::size_t limit, std::chrono::milliseconds wait = std::chrono::seconds(5));
  /// Whether an answer or the end has come within `wait`.
  [[nodiscard]] bool readable(std::chrono::milliseconds wait) const;
  /// Whether the server has ended the connection within `wait`.
  [[nodiscard]] bool ended(std::chrono::milliseconds wait) const;

  void shut_down_sending() const;
  void close();
  /// Closes as a killed process with unread data does.
  void reset();

  /// send and receive
  Answered ask(std::string_view text, bool head = false);

 private:
  /// Reads more into pending_; false at the end.
  bool fill();
  bool fill_to(std::size_t size);
  std::string take(std::size_t size);
  std::optional<std::string> take_line();
  std::optional<std::string> take_chunks();

  int handle_ = -1;
  std::string pending_;
};

/// A server on a free port with small limits for what takes time.
struct RunningServer {
  explicit RunningServer(Handler handler, const std::function<void(ServerOptions&)>& adjust = nullptr,
                         Admission admission = nullptr);

  std::unique_ptr<Server> server;

  [[nodiscard]] std::uint16_t port() const { return server->port(); }
};

std::string get(std::string_view path, std::string_view fields = "");
std::string post(std::string_view path, std::string_view body, std::string_view fields = "");

/// Answers with the request's body, or with its path where it has none.
void echo(std::shared_ptr<Exchange> exchange);

std::string text_of(const Piece& piece);

/// gzip (wrapping 31), zlib (15) or bare deflate (-15).
std::string compressed(std::string_view text, int wrapping);
std::string uncompressed(std::string_view text);

}  // namespace gpux::http
