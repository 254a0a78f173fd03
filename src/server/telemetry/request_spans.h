#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/telemetry/span.h"

namespace gpux::server {

/// The spans of one request: its own, and those of its phases. Any thread.
class RequestSpans {
 public:
  using Clock = std::chrono::steady_clock;
  /// Is given all spans when the request has ended; must not block, and must not throw.
  using Sink = std::function<void(std::vector<Span>&& spans)>;

  /// A request is no more than this many phases; later ones are left out and counted in "gpux.dropped_spans".
  static constexpr std::size_t max_phases = 128;

  /// `name`: "POST /v1/chat/completions". `parent`: of the client; empty: it has none. `arrived`: when the request
  /// came.
  RequestSpans(SpanContext context, const std::optional<SpanContext>& parent, std::string name,
               Clock::time_point arrived, Sink sink, SpanKind kind = SpanKind::server);
  /// Ends a request that got no answer: its client left.
  ~RequestSpans();
  RequestSpans(const RequestSpans&) = delete;
  RequestSpans& operator=(const RequestSpans&) = delete;

  /// A phase that is over. What comes behind the end is dropped. `within`: the phase that it is a part of; empty: of
  /// the request. Returns its id, for parts of it.
  SpanId add(std::string name, Clock::time_point start, Clock::time_point end, std::vector<Attribute> attributes = {},
             std::vector<std::pair<std::string, Clock::time_point>> events = {},
             const std::optional<SpanId>& within = {});

  /// An attribute of the request; a later value of the same name counts.
  void set(std::string name, AttributeValue value);

  /// The request has failed, whatever the status of its answer: one that is streamed has begun as a success.
  void fail(const std::string& reason);

  /// How a request ends.
  struct End {
    Attribute status;
    std::string error_type = {};  ///< empty: it has not failed
    std::string error = {};       ///< why it failed, where fail() has not said it
  };

  /// The answer has been given, or its last part. Only the first call counts.
  void end(End end);

  [[nodiscard]] const SpanContext& context() const noexcept { return context_; }

 private:
  [[nodiscard]] std::chrono::system_clock::time_point at(Clock::time_point time) const;
  void finish(std::vector<Span>& spans);

  SpanContext context_;
  // One reading of both clocks, so that the times of a request fit each other.
  Clock::time_point now_;
  std::chrono::system_clock::time_point wall_now_;
  Sink sink_;

  std::mutex mutex_;
  std::vector<Span> spans_;  // the request's own first; empty after the end
  std::size_t dropped_ = 0;
};

/// Of HTTP: from 500 on it has failed. Source: semantic conventions 1.37 for HTTP spans.
[[nodiscard]] RequestSpans::End http_end(int status);

/// Of gRPC: it has failed where the server is to blame. `code`, `name`: of the status, as 14 and "UNAVAILABLE".
/// Source: semantic conventions 1.37 for gRPC spans.
[[nodiscard]] RequestSpans::End grpc_end(int code, std::string_view name, std::string message);

}  // namespace gpux::server
