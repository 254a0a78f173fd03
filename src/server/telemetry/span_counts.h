#pragma once

#include <cstdint>

namespace gpux::server {

/// Spans since the start.
struct SpanCounts {
  std::uint64_t sent = 0;
  std::uint64_t dropped = 0;  ///< the queue was full, or the receiver did not take them
};

}  // namespace gpux::server
