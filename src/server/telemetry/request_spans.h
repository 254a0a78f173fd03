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
               Clock::time_point arrived, Sink sink);
  /// Ends a request that got no answer: its client left.
  ~RequestSpans();
  RequestSpans(const RequestSpans&) = delete;
  RequestSpans& operator=(const RequestSpans&) = delete;

  /// A phase that is over. What comes behind the end is dropped.
  void add(std::string name, Clock::time_point start, Clock::time_point end, std::vector<Attribute> attributes = {},
           std::vector<std::pair<std::string, Clock::time_point>> events = {});

  /// An attribute of the request; a later value of the same name counts.
  void set(std::string name, AttributeValue value);

  /// The request has failed, whatever the status of its answer: one that is streamed has begun as a success.
  void fail(const std::string& reason);

  /// The answer has been given, or its last part. Only the first call counts. From 500 on the request has failed.
  void end(int status);

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

}  // namespace gpux::server
