#include "server/telemetry/span.h"

#include <algorithm>
#include <random>
#include <span>

#include <fmt/format.h>

namespace gpux::server {
namespace {

// Unguessable ids are not needed, but those of several servers must differ.
std::mt19937_64& generator() {
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return random;
}

template <typename Id>
Id new_id() {
  Id id{};
  do {
    for (std::uint8_t& byte : id) byte = static_cast<std::uint8_t>(generator()());
  } while (std::ranges::all_of(id, [](std::uint8_t byte) { return byte == 0; }));
  return id;
}

std::optional<unsigned> digit_of(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  return std::nullopt;
}

// False where they are no hexadecimal digits in lower case.
bool read_bytes(std::string_view digits, std::span<std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto high = digit_of(digits[2 * i]), low = digit_of(digits[2 * i + 1]);
    if (!high || !low) return false;
    bytes[i] = static_cast<std::uint8_t>(*high * 16 + *low);
  }
  return true;
}

bool is_zero(std::span<const std::uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

TraceId new_trace_id() {
  return new_id<TraceId>();
}

SpanId new_span_id() {
  return new_id<SpanId>();
}

std::string to_hexadecimal(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string SpanContext::traceparent() const {
  return fmt::format("00-{}-{}-{}", to_hexadecimal(trace), to_hexadecimal(span), is_sampled ? "01" : "00");
}

std::optional<SpanContext> read_span_context(std::string_view text) {
  constexpr std::size_t size = 55, trace_at = 3, span_at = 36, flags_at = 53;
  if (text.size() < size || text[2] != '-' || text[span_at - 1] != '-' || text[flags_at - 1] != '-') {
    return std::nullopt;
  }
  // Later versions may append fields; "ff" is forbidden.
  std::array<std::uint8_t, 1> version{}, flags{};
  if (!read_bytes(text, version) || version[0] == 0xff) return std::nullopt;
  if (text.size() > size && (version[0] == 0 || text[size] != '-')) return std::nullopt;
  SpanContext context;
  const bool is_read = read_bytes(text.substr(trace_at), context.trace) &&
                       read_bytes(text.substr(span_at), context.span) && read_bytes(text.substr(flags_at), flags);
  if (!is_read || is_zero(context.trace) || is_zero(context.span)) return std::nullopt;
  context.is_sampled = (flags[0] & 1U) != 0;
  return context;
}

}  // namespace gpux::server
