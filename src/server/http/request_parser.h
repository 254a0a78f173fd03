#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "server/http/message.h"
#include "server/http/refusal.h"

namespace gpux::http {

/// How the body of a request is sent, and whether the connection is kept, from its header.
struct Framing {
  enum class Coding : int { identity, gzip, deflate };

  std::uint64_t content_length = 0;  ///< 0 where the body is chunked, or there is none
  bool chunked = false;
  Coding coding = Coding::identity;
  bool expects_continue = false;
  bool keep_alive = true;
  bool http_1_1 = true;
  std::size_t aligned_at = 0;  ///< Inference-Header-Content-Length where it is a number

  [[nodiscard]] bool has_body() const noexcept { return chunked || content_length > 0; }
};

/// Reads request lines and header fields. One for a connection, used for one request after the other.
class RequestParser {
 public:
  explicit RequestParser(std::size_t max_header_bytes);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  /// Begins with a request; it must outlive the reading of its header.
  void begin(Request& request);

  enum class Outcome : int { more, complete, refused };
  /// Reads on. `consumed` bytes of `text` are done with; the rest must be given again, with what came after it.
  Outcome feed(std::string_view text, std::size_t& consumed);

  /// Framing of the request's body; valid once the header is complete.
  [[nodiscard]] const Framing& framing() const noexcept;
  /// Why the request is refused; valid once it is.
  [[nodiscard]] const Refusal& refusal() const noexcept;

 private:
  class Grammar;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux::http
