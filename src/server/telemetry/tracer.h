#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/telemetry/request_spans.h"
#include "server/telemetry/sampler.h"

namespace gpux::server {

/// Begins the spans of requests that are recorded. Thread-safe.
class Tracer {
 public:
  /// `reads_parent`: a request is part of the trace that its traceparent names.
  Tracer(const Sampler& sampler, bool reads_parent, RequestSpans::Sink sink);

  /// The spans of a request; null: it is not recorded. `traceparent`: of the request; empty: it has none.
  [[nodiscard]] std::shared_ptr<RequestSpans> begin(std::string name, std::optional<std::string_view> traceparent,
                                                    RequestSpans::Clock::time_point arrived,
                                                    SpanKind kind = SpanKind::server) const;

 private:
  Sampler sampler_;
  bool reads_parent_;
  RequestSpans::Sink sink_;
};

}  // namespace gpux::server
