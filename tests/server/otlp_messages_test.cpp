// Messages of OTLP: traces, and the metrics of a page.
#include "server/telemetry/otlp_messages.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <otlp.pb.h>

#include "server/telemetry/prometheus_page.h"

namespace gpux::server {
namespace {

using testing::ElementsAre;

constexpr const char* page = R"(# HELP a_total Things
# TYPE a_total counter
a_total{model="x \"y\"",version="1"} 3
a_total{model="z\\",version="2"} 4
# HELP b Level
# TYPE b gauge
b 1.5
# HELP gpux_time_to_first_token_seconds Wait
# TYPE gpux_time_to_first_token_seconds histogram
gpux_time_to_first_token_seconds_bucket{model="m",le="0.1"} 1
gpux_time_to_first_token_seconds_bucket{model="m",le="1"} 4
gpux_time_to_first_token_seconds_bucket{model="m",le="+Inf"} 5
gpux_time_to_first_token_seconds_sum{model="m"} 2.5
gpux_time_to_first_token_seconds_count{model="m"} 5
# HELP s Summary
# TYPE s summary
s{quantile="0.5"} 1
this is no line
b{ 3
)";

TEST(PrometheusPage, IsRead) {
  const std::vector<MetricFamily> families = read_prometheus(page);
  ASSERT_EQ(families.size(), 3);
  EXPECT_EQ(families[0].name, "a_total");
  EXPECT_EQ(families[0].help, "Things");
  EXPECT_EQ(families[0].kind, MetricFamily::Kind::counter);
  ASSERT_EQ(families[0].samples.size(), 2);
  EXPECT_THAT(families[0].samples[0].labels,
              ElementsAre(testing::Pair("model", "x \"y\""), testing::Pair("version", "1")));
  EXPECT_EQ(families[0].samples[1].labels[0].second, "z\\");
  EXPECT_EQ(families[1].samples.at(0).value, 1.5);
  const MetricSample& histogram = families[2].samples.at(0);
  EXPECT_THAT(histogram.bounds, ElementsAre(0.1, 1));
  EXPECT_THAT(histogram.bucket_counts, ElementsAre(1, 3, 1));
  EXPECT_EQ(histogram.count, 5);
  EXPECT_EQ(histogram.value, 2.5);
  EXPECT_TRUE(read_prometheus("").empty());
}

TEST(OtlpMessages, HaveTheMetricsOfAPage) {
  const std::chrono::system_clock::time_point start{std::chrono::seconds(1)}, now{std::chrono::seconds(2)};
  otlp::ExportMetricsServiceRequest read;
  ASSERT_TRUE(read.ParseFromString(metrics_message(page, {{"service.name", "g"}}, start, now)));
  ASSERT_EQ(read.resource_metrics_size(), 1);
  EXPECT_EQ(read.resource_metrics(0).resource().attributes(0).value().string_value(), "g");
  const auto& metrics = read.resource_metrics(0).scope_metrics(0).metrics();
  // The histogram also has the name of the semantic conventions.
  ASSERT_EQ(metrics.size(), 4);
  EXPECT_TRUE(metrics[0].sum().is_monotonic());
  EXPECT_EQ(metrics[0].sum().aggregation_temporality(), 2);
  EXPECT_EQ(metrics[0].sum().data_points(1).as_double(), 4);
  EXPECT_EQ(metrics[0].sum().data_points(1).start_time_unix_nano(), 1'000'000'000);
  EXPECT_EQ(metrics[0].sum().data_points(1).time_unix_nano(), 2'000'000'000);
  EXPECT_EQ(metrics[1].gauge().data_points(0).as_double(), 1.5);
  const auto& point = metrics[2].histogram().data_points(0);
  EXPECT_EQ(point.bucket_counts_size(), point.explicit_bounds_size() + 1);
  EXPECT_EQ(metrics[2].unit(), "s");
  EXPECT_EQ(metrics[3].name(), "gen_ai.server.time_to_first_token");
  EXPECT_EQ(metrics[3].histogram().data_points(0).attributes(0).key(), "gen_ai.request.model");
}

TEST(OtlpMessages, HaveExemplars) {
  constexpr const char* traced = R"(# TYPE w histogram
w_bucket{le="0.1"} 1 # {trace_id="4bf92f3577b34da6a3ce929d0e0e4736",span_id="00f067aa0ba902b7"} 0.05 12.5
w_bucket{le="1"} 2 # {trace_id="x"
w_bucket{le="+Inf"} 2
w_sum 0.7
w_count 2
)";
  otlp::ExportMetricsServiceRequest read;
  ASSERT_TRUE(read.ParseFromString(metrics_message(traced, {}, {}, {})));
  const auto& point = read.resource_metrics(0).scope_metrics(0).metrics(0).histogram().data_points(0);
  EXPECT_EQ(point.count(), 2);
  ASSERT_EQ(point.exemplars_size(), 1);
  EXPECT_EQ(point.exemplars(0).trace_id().substr(0, 4), "\x4b\xf9\x2f\x35");
  EXPECT_EQ(point.exemplars(0).trace_id().size(), 16);
  EXPECT_EQ(point.exemplars(0).span_id().size(), 8);
  EXPECT_EQ(point.exemplars(0).as_double(), 0.05);
  EXPECT_EQ(point.exemplars(0).time_unix_nano(), 12'500'000'000);
}

TEST(OtlpMessages, HaveSpans) {
  Span span{.context = {.trace = {1, 2}, .span = {3}, .is_sampled = true},
            .parent = {4},
            .name = "run",
            .kind = SpanKind::server,
            .start = std::chrono::system_clock::time_point(std::chrono::milliseconds(5)),
            .end = std::chrono::system_clock::time_point(std::chrono::milliseconds(7)),
            .attributes = {{"text", std::string("a")}, {"count", std::int64_t{-1}}, {"share", 0.5}, {"flag", true}},
            .events = {{"token 1", std::chrono::system_clock::time_point(std::chrono::milliseconds(6))}},
            .error = "why",
            .is_error = true};
  otlp::ExportTraceServiceRequest read;
  ASSERT_TRUE(read.ParseFromString(trace_message({&span, 1}, {{"service.name", "g"}, {"b", "c"}})));
  const auto& made = read.resource_spans(0).scope_spans(0).spans(0);
  EXPECT_EQ(read.resource_spans(0).resource().attributes_size(), 2);
  EXPECT_EQ(made.trace_id(), std::string("\1\2", 2) + std::string(14, '\0'));
  EXPECT_EQ(made.span_id().size(), 8);
  EXPECT_EQ(made.parent_span_id().size(), 8);
  EXPECT_EQ(made.kind(), 2);
  EXPECT_EQ(made.end_time_unix_nano() - made.start_time_unix_nano(), 2'000'000);
  EXPECT_EQ(made.attributes(1).value().int_value(), -1);
  EXPECT_TRUE(made.attributes(3).value().bool_value());
  EXPECT_EQ(made.events(0).time_unix_nano(), 6'000'000);
  EXPECT_EQ(made.status().code(), 2);
  EXPECT_EQ(made.status().message(), "why");
  span.parent = {};
  ASSERT_TRUE(read.ParseFromString(trace_message({&span, 1}, {})));
  EXPECT_TRUE(read.resource_spans(0).scope_spans(0).spans(0).parent_span_id().empty());
}

TEST(OtlpMessages, ReadWhatAReceiverRefuses) {
  otlp::ExportServiceResponse response;
  EXPECT_EQ(read_refused(response.SerializeAsString()).count, 0);
  response.mutable_partial_success()->set_rejected(3);
  response.mutable_partial_success()->set_error_message("too old");
  const Refused refused = read_refused(response.SerializeAsString());
  EXPECT_EQ(refused.count, 3);
  EXPECT_EQ(refused.reason, "too old");
  EXPECT_EQ(read_refused("no message").count, 0);
}

}  // namespace
}  // namespace gpux::server
