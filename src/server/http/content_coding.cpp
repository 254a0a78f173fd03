#include "server/http/content_coding.h"

#include <algorithm>
#include <array>
#include <limits>
#include <new>

#include <zlib.h>

#include "server/http/header_value.h"

namespace gpux::http {

namespace {

constexpr int zlib_wrapping = MAX_WBITS;
constexpr int gzip_wrapping = MAX_WBITS + 16;
constexpr int no_wrapping = -MAX_WBITS;

uInt clamped(std::size_t size) noexcept {
  return static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
}

/// "q=0", "q=0.000"
bool is_weight_zero(std::string_view parameter) noexcept {
  parameter = trimmed(parameter);
  if (parameter.size() < 3 || !same_name(parameter.substr(0, 2), "q=")) return false;
  return parameter.substr(2).find_first_not_of("0.") == std::string_view::npos;
}

}  // namespace

struct Inflater::State {
  z_stream stream{};
  Framing::Coding coding = Framing::Coding::gzip;
  bool open = false;          ///< `stream` is initialized
  bool started = false;       ///< a member has begun
  bool finished = false;      ///< and ended
  bool more_to_come = false;  ///< the last step filled its output
};

Inflater::Inflater(Framing::Coding coding) : state_(std::make_unique<State>()) {
  state_->coding = coding;
}

Inflater::~Inflater() {
  if (state_->open) inflateEnd(&state_->stream);
}

Inflater::Step Inflater::step(std::span<const std::byte> in, std::span<std::byte> out) {
  State& state = *state_;
  Step step;
  if (in.empty() && !state.more_to_come) return step;
  if (!state.open) {
    // zlib's wrapping begins with a byte whose lower half is 8; bare deflate has there a block type that no encoder
    // chooses with these bits.
    const bool bare = state.coding == Framing::Coding::deflate && (static_cast<unsigned>(in[0]) & 0x0fU) != 8;
    const int wrapping = state.coding == Framing::Coding::gzip ? gzip_wrapping : bare ? no_wrapping : zlib_wrapping;
    if (inflateInit2(&state.stream, wrapping) != Z_OK) throw std::bad_alloc();
    state.open = true;
  }
  if (state.finished) {
    if (state.coding != Framing::Coding::gzip) {
      step.malformed = true;
      return step;
    }
    inflateReset(&state.stream);
    state.finished = false;
  }
  state.started = true;
  state.stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
  state.stream.avail_in = clamped(in.size());
  state.stream.next_out = reinterpret_cast<Bytef*>(out.data());
  state.stream.avail_out = clamped(out.size());
  const int outcome = inflate(&state.stream, Z_NO_FLUSH);
  step.consumed = clamped(in.size()) - state.stream.avail_in;
  step.produced = clamped(out.size()) - state.stream.avail_out;
  if (outcome == Z_MEM_ERROR) throw std::bad_alloc();
  state.finished = outcome == Z_STREAM_END;
  state.more_to_come = state.stream.avail_out == 0 && !state.finished;
  step.malformed = outcome != Z_OK && outcome != Z_STREAM_END && outcome != Z_BUF_ERROR;
  return step;
}

bool Inflater::ended() const noexcept {
  return state_->started && state_->finished;
}

struct Deflater::State {
  z_stream stream{};
  std::string text;

  void run(std::span<const std::byte> in, int flush) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    std::size_t left = in.size();
    do {
      stream.avail_in = clamped(left);
      left -= stream.avail_in;
      do {
        std::array<char, 16 << 10> portion;
        stream.next_out = reinterpret_cast<Bytef*>(portion.data());
        stream.avail_out = static_cast<uInt>(portion.size());
        deflate(&stream, flush);
        text.append(portion.data(), portion.size() - stream.avail_out);
      } while (stream.avail_out == 0);
    } while (left > 0);
  }
};

Deflater::Deflater() : state_(std::make_unique<State>()) {
  constexpr int memory_level = 8;
  if (deflateInit2(&state_->stream, Z_BEST_SPEED, Z_DEFLATED, gzip_wrapping, memory_level, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw std::bad_alloc();
  }
}

Deflater::~Deflater() {
  deflateEnd(&state_->stream);
}

void Deflater::add(std::span<const std::byte> in) {
  if (!in.empty()) state_->run(in, Z_NO_FLUSH);
}

std::string Deflater::finish() {
  state_->run({}, Z_FINISH);
  return std::move(state_->text);
}

bool accepts_gzip(std::string_view accept_encoding) noexcept {
  bool any = false;
  while (!accept_encoding.empty()) {
    const std::string_view item = accept_encoding.substr(0, accept_encoding.find(','));
    accept_encoding.remove_prefix(std::min(item.size() + 1, accept_encoding.size()));
    const std::size_t mark = std::min(item.find(';'), item.size());
    const std::string_view name = trimmed(item.substr(0, mark));
    const bool wanted = mark == item.size() || !is_weight_zero(item.substr(mark + 1));
    if (same_name(name, "gzip") || same_name(name, "x-gzip")) return wanted;
    if (name == "*") any = wanted;
  }
  return any;
}

bool is_text(std::string_view content_type) noexcept {
  const std::string_view type = trimmed(content_type.substr(0, content_type.find(';')));
  if (same_name(type.substr(0, 5), "text/")) return true;
  const auto ends_with = [&](std::string_view ending) {
    return type.size() >= ending.size() && same_name(type.substr(type.size() - ending.size()), ending);
  };
  return ends_with("/json") || ends_with("+json") || ends_with("/xml") || ends_with("+xml") ||
         ends_with("/javascript") || ends_with("/x-ndjson");
}

}  // namespace gpux::http
