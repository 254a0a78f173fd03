#include "server/telemetry/tracer.h"

#include <utility>

namespace gpux::server {

Tracer::Tracer(const Sampler& sampler, bool reads_parent, RequestSpans::Sink sink)
    : sampler_(sampler), reads_parent_(reads_parent), sink_(std::move(sink)) {}

std::shared_ptr<RequestSpans> Tracer::begin(std::string name, std::optional<std::string_view> traceparent,
                                            RequestSpans::Clock::time_point arrived, SpanKind kind) const {
  const auto parent = traceparent && reads_parent_ ? read_span_context(*traceparent) : std::nullopt;
  const SpanContext context{
      .trace = parent ? parent->trace : new_trace_id(), .span = new_span_id(), .is_sampled = true};
  if (!is_sampled(sampler_, context.trace, parent)) return nullptr;
  return std::make_shared<RequestSpans>(context, parent, std::move(name), arrived, sink_, kind);
}

}  // namespace gpux::server
