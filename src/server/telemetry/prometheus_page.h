#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpux::server {

/// A measurement of a request that was traced. Empty ids: there is none.
struct MetricExemplar {
  std::string trace_id, span_id;  ///< hexadecimal digits
  double value = 0;
  double time_seconds = 0;  ///< since 1970
};

/// The value of a metric for some labels, or a histogram of them.
struct MetricSample {
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;                            ///< of a histogram: the sum
  std::uint64_t count = 0;                     ///< of a histogram
  std::vector<double> bounds;                  ///< of a histogram: upper ones, without the infinite one
  std::vector<std::uint64_t> bucket_counts;    ///< of a histogram: in each bucket alone, the last one has no bound
  std::vector<MetricExemplar> exemplars = {};  ///< of a histogram
};

struct MetricFamily {
  enum class Kind : std::uint8_t { counter, gauge, histogram };

  std::string name, help;
  Kind kind = Kind::gauge;
  std::vector<MetricSample> samples;
};

/// Reads a page in Prometheus' text format, version 0.0.4, whose families have a # TYPE line, and whose buckets may
/// have exemplars as OpenMetrics has them. Other kinds than those of MetricFamily, and lines that are not of the
/// format, are left out. Pure.
[[nodiscard]] std::vector<MetricFamily> read_prometheus(std::string_view page);

}  // namespace gpux::server
