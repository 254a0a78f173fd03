#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/http/message.h"
#include "server/http/request_parser.h"

namespace gpux::http {

/// Undoes gzip (also several members in a row) and deflate (with zlib's wrapping, or bare as some clients send it).
class Inflater {
 public:
  /// Memory of an Inflater: zlib's window and tables.
  static constexpr std::uint64_t memory_bytes = 48 << 10;

  explicit Inflater(Framing::Coding coding);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  struct Step {
    std::size_t consumed = 0;
    std::size_t produced = 0;
    bool malformed = false;
  };

  /// Reads from `in` and writes to `out` until one of them is used up.
  Step step(std::span<const std::byte> in, std::span<std::byte> out);

  /// Whether what was read so far is whole.
  [[nodiscard]] bool ended() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Compresses a body in steps, so that others get their turn in between.
class Deflater {
 public:
  /// Memory of a Deflater, without its output.
  static constexpr std::uint64_t memory_bytes = 272 << 10;

  Deflater();
  ~Deflater();
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  void add(std::span<const std::byte> in);
  /// The gzip text as a whole.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether Accept-Encoding allows gzip: names it (or x-gzip, or *) with a weight above 0.
bool accepts_gzip(std::string_view accept_encoding) noexcept;

/// text/*, JSON, XML, JavaScript.
bool is_text(std::string_view content_type) noexcept;

}  // namespace gpux::http
