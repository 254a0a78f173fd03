// What /metrics is asked for, and OpenMetrics.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "server/metrics/metrics.h"
#include "server/requests/histogram.h"

namespace gpux::server {
namespace {

TEST(MetricFormat, IsWhatTheClientAsksForFirst) {
  const std::vector<std::pair<const char*, MetricFormat>> cases{
      {"", MetricFormat::prometheus},
      {"*/*", MetricFormat::prometheus},
      {"text/plain", MetricFormat::prometheus},
      {"application/json", MetricFormat::json},
      {"text/html, application/json", MetricFormat::prometheus},
      // As Prometheus 3 asks.
      {"application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.3",
       MetricFormat::open_metrics},
      {"Application/OpenMetrics-Text", MetricFormat::open_metrics},
      {"application/json, application/openmetrics-text", MetricFormat::json},
  };
  for (const auto& [accept, format] : cases) EXPECT_EQ(metric_format(accept), format) << accept;
}

TEST(OpenMetrics, HasCountersWithoutTotalAndAnEnd) {
  const std::string page = R"(# HELP gpux_runs_total Runs
# TYPE gpux_runs_total counter
gpux_runs_total{model="m"} 3
# HELP nv_count Rows
# TYPE nv_count counter
nv_count 4
# HELP wait Wait
# TYPE wait histogram
wait_bucket{le="0.5"} 1
wait_bucket{le="1"} 2 # {trace_id="a"} 0.7 1.000
wait_bucket{le="+Inf"} 2
# HELP level Level
# TYPE level gauge
level 1
)";
  EXPECT_EQ(open_metrics_text(page), R"(# HELP gpux_runs Runs
# TYPE gpux_runs counter
gpux_runs_total{model="m"} 3
# HELP nv_count Rows
# TYPE nv_count unknown
nv_count 4
# HELP wait Wait
# TYPE wait histogram
wait_bucket{le="0.5"} 1
wait_bucket{le="1.0"} 2 # {trace_id="a"} 0.7 1.000
wait_bucket{le="+Inf"} 2
# HELP level Level
# TYPE level gauge
level 1
# EOF
)");
}

TEST(Histogram, KeepsTheLastTracedDurationOfEachBucket) {
  Histogram histogram;
  const SpanContext first{.trace = {1}, .span = {2}}, second{.trace = {3}, .span = {4}};
  histogram.add(std::chrono::microseconds(200));
  EXPECT_FALSE(histogram.exemplar(1));
  histogram.add(std::chrono::microseconds(201), &first);
  histogram.add(std::chrono::microseconds(202), &second);
  histogram.add(std::chrono::microseconds(203));
  ASSERT_TRUE(histogram.exemplar(1));
  EXPECT_EQ(histogram.exemplar(1)->trace, second.trace);
  EXPECT_NEAR(histogram.exemplar(1)->seconds, 202e-6, 1e-9);
  EXPECT_FALSE(histogram.exemplar(0));
  EXPECT_EQ(histogram.count(), 4);
}

}  // namespace
}  // namespace gpux::server
