#pragma once

#include <cstdint>
#include <optional>

#include "server/telemetry/span.h"

namespace gpux::server {

/// Which traces are recorded: OTEL_TRACES_SAMPLER.
struct Sampler {
  enum class Kind : std::uint8_t { always_on, always_off, ratio };

  Kind kind = Kind::always_on;
  double ratio = 1;            ///< 0 to 1, of the traces
  bool follows_parent = true;  ///< a request that is part of a trace is recorded if the trace is
};

/// Whether a span is recorded. `parent`: of the client; empty: it has none. Programs with the same ratio record the
/// same traces. Pure.
[[nodiscard]] bool is_sampled(const Sampler& sampler, const TraceId& trace, const std::optional<SpanContext>& parent);

}  // namespace gpux::server
