#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpux::http {

/// Takes the chunked transfer coding (RFC 9112, 7.1) off a body, in whatever portions it comes. Extensions and
/// trailer fields are skipped; each may be `max_line_bytes` long, the trailer as a whole as well.
class ChunkedDecoder {
 public:
  explicit ChunkedDecoder(std::size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}

  /// Moves `text` past what was read and returns the next bytes of the body in it: empty where `text` is used up, or
  /// at the end, or where it is malformed.
  std::string_view next(std::string_view& text) noexcept;

  [[nodiscard]] bool ended() const noexcept { return state_ == State::ended; }

  [[nodiscard]] bool malformed() const noexcept { return state_ == State::malformed; }

 private:
  enum class State : int {
    size,
    extension,
    size_line_end,
    data,
    data_return,
    data_line_end,
    trailer,
    ended,
    malformed
  };

  void read(char character) noexcept;
  void read_size(char character) noexcept;
  void read_trailer(char character) noexcept;

  State state_ = State::size;
  std::uint64_t remaining_ = 0;  ///< bytes of this chunk
  std::size_t digits_ = 0;
  std::size_t line_bytes_ = 0;
  std::size_t max_line_bytes_;
  bool line_is_empty_ = true;
  bool after_return_ = false;
};

}  // namespace gpux::http
