#include "server/telemetry/sampler.h"

#include <cmath>
#include <cstddef>

namespace gpux::server {
namespace {

// Of the trace's last 8 bytes, as OpenTelemetry's own samplers.
bool is_below(const TraceId& trace, double ratio) {
  constexpr std::size_t from = 8;
  std::uint64_t number = 0;
  for (std::size_t i = from; i < trace.size(); ++i) number = number << 8U | trace[i];
  if (ratio >= 1) return true;
  return number < static_cast<std::uint64_t>(std::ldexp(ratio, 64));
}

}  // namespace

bool is_sampled(const Sampler& sampler, const TraceId& trace, const std::optional<SpanContext>& parent) {
  if (sampler.follows_parent && parent) return parent->is_sampled;
  switch (sampler.kind) {
    case Sampler::Kind::always_on:
      return true;
    case Sampler::Kind::always_off:
      return false;
    case Sampler::Kind::ratio:
      return is_below(trace, sampler.ratio);
  }
  return false;
}

}  // namespace gpux::server
