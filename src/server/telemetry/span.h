#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// Traces as OpenTelemetry has them. Source: OpenTelemetry Specification 1.49, "Tracing API"; W3C Trace Context.
namespace gpux::server {

using AttributeValue = std::variant<std::string, std::int64_t, double, bool>;

struct Attribute {
  std::string name;
  AttributeValue value;
};

/// Of a trace, which several programs may have a part of, and of a span in it. No all-zero id is valid.
using TraceId = std::array<std::uint8_t, 16>;
using SpanId = std::array<std::uint8_t, 8>;

[[nodiscard]] TraceId new_trace_id();
[[nodiscard]] SpanId new_span_id();

/// Bytes as hexadecimal digits in lower case.
[[nodiscard]] std::string to_hexadecimal(std::span<const std::uint8_t> bytes);

/// The place of a span in its trace, as a traceparent header has it.
struct SpanContext {
  TraceId trace{};
  SpanId span{};
  bool is_sampled = false;

  /// "00-TRACE-SPAN-FLAGS".
  [[nodiscard]] std::string traceparent() const;
};

/// Parses a traceparent header; empty if it is not valid.
[[nodiscard]] std::optional<SpanContext> read_span_context(std::string_view traceparent);

/// Something that happened at one time within a span.
struct SpanEvent {
  std::string name;
  std::chrono::system_clock::time_point time;
  std::vector<Attribute> attributes = {};
};

enum class SpanKind : std::uint8_t { internal = 1, server = 2 };

/// A span that has ended.
struct Span {
  SpanContext context;
  SpanId parent{};  ///< zero: it has none
  std::string name;
  SpanKind kind = SpanKind::internal;
  std::chrono::system_clock::time_point start, end;
  std::vector<Attribute> attributes;
  std::vector<SpanEvent> events;
  std::string error;      ///< why it failed
  bool is_error = false;  ///< it failed
};

}  // namespace gpux::server
