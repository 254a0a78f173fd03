#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::http {

inline std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Whether two names of header fields are the same: without regard to case.
bool same_name(std::string_view left, std::string_view right) noexcept;

/// Header fields in the order they came. Names compare without regard to case.
class Headers {
 public:
  struct Field {
    std::string_view name;
    std::string_view value;
  };

  /// Error internal where name or value holds what would break the message (control characters, a colon in the name).
  void add(std::string_view name, std::string_view value);
  /// The first field of that name; empty where there is none. Valid until the next add.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept;
  /// find(), or an empty text if the field is absent.
  [[nodiscard]] std::string_view operator[](std::string_view name) const noexcept;
  /// Number of fields of that name.
  [[nodiscard]] std::size_t count(std::string_view name) const noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

  [[nodiscard]] Field at(std::size_t index) const noexcept;
  void clear() noexcept;

 private:
  friend class RequestParser;

  struct Entry {
    std::uint32_t begin;
    std::uint32_t name_length;
    std::uint32_t value_length;
  };

  void add_checked(std::string_view name, std::string_view value);

  std::string text_;  ///< name and value of each entry, one after the other
  std::vector<Entry> entries_;
};

/// Bytes that stay where they are for as long as somebody holds `owner`. A null owner: they live for ever.
struct Piece {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  /// A piece that owns the text.
  static Piece of(std::string text);
  /// A piece that refers to text in static storage.
  static Piece lasting(std::string_view text) noexcept;

  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

/// Bytes that may be read behind the end of every body (zeros at first), for parsers that look ahead.
inline constexpr std::size_t body_padding = 64;
/// Alignment of the first byte of a body, or of the byte that its Inference-Header-Content-Length points to.
inline constexpr std::size_t body_alignment = 64;

/// A copy laid out as the bodies of requests are: bytes[aligned_at] aligned, padding behind. For tests of protocols.
Piece make_body(std::string_view text, std::size_t aligned_at = 0);

struct Request {
  /// "GET", "POST", …; a HEAD is shown as "GET": the transport leaves the body of the answer out by itself.
  std::string method;
  bool is_head = false;
  std::string target;  ///< as it was sent, without scheme and host: "/v2/models/a%2Fb?x=1"
  std::string path;    ///< decoded: "/v2/models/a/b"; UTF-8 without control characters and without . and .. segments
  std::string query;   ///< behind the '?', not decoded
  Headers headers;
  /// Whole, with chunks joined and Content-Encoding undone. Its owner may be kept beyond the exchange, so that tensors
  /// can borrow from it; until it is let go it counts against ServerOptions::memory.
  Piece body;
  std::shared_ptr<const std::string> peer;  ///< "127.0.0.1:40312", "[::1]:40312", "unix"
  /// Common name of the certificate that the client has proved to have, as it is there: it may be empty, or have
  /// control characters. Null: it has sent no certificate.
  std::shared_ptr<const std::string> certificate_name;
  std::shared_ptr<const void> admission;            ///< Admitted::admission of the request
  std::chrono::steady_clock::time_point arrived{};  ///< when the connection came to it
  /// When its last byte was read, which may be long before that where requests are pipelined.
  std::chrono::steady_clock::time_point received{};

  /// The path cut at its slashes and then decoded, so that %2F stays inside its segment: {"v2", "models", "a/b"}.
  [[nodiscard]] std::vector<std::string> segments() const;
  /// A parameter of the query, decoded ('+' is a blank); empty where it is missing or cannot be decoded.
  [[nodiscard]] std::optional<std::string> query_parameter(std::string_view name) const;
};

/// Decodes %XX. Empty where an escape is broken, or the result is not UTF-8 or holds control characters.
std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_blank = false);

/// Whether an answer may be sent in gzip to a client that accepts it (Accept-Encoding).
enum class Compression : int {
  automatic,  ///< where Content-Type names text or JSON and the body reaches Limits::compress_from_bytes
  never,
  always,  ///< whatever the type and size
};

/// The body is `text` followed by `pieces`, written by gather without a copy.
/// Content-Length, Transfer-Encoding, Connection and Date are the transport's and must not be added.
struct Response {
  int status = 200;
  Headers headers;
  std::string text;
  std::vector<Piece> pieces;
  Compression compression = Compression::automatic;
  bool close = false;  ///< end the connection after this answer
  /// The request's: an answer of which something is left to write a second after it is cut off, as is a streamed one
  /// that is not finished then. An answer given after the deadline has a second, too.
  std::optional<std::chrono::steady_clock::time_point> deadline;

  static Response json(int status, std::string text);
  /// The head of an answer that is written as it is made: neither caches nor proxies (nginx) hold it back.
  static Response streamed(std::string_view content_type);
  /// Response with the JSON body {"error": message}.
  static Response error(int status, std::string_view message);

  [[nodiscard]] std::size_t body_bytes() const noexcept;
};

/// "Not Found"; empty for a number without a usual phrase.
std::string_view reason_phrase(int status) noexcept;

}  // namespace gpux::http
