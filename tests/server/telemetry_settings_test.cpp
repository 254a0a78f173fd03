// What the variables OTEL_… say.
#include "server/telemetry/telemetry_settings.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Variables = std::map<std::string, std::string>;

TelemetrySettings read(const Variables& variables) {
  return read_telemetry_settings(
      [&](const std::string& name) { return variables.contains(name) ? variables.at(name) : std::string(); }, "gpux");
}

TEST(TelemetrySettings, SendNothingUnlessAnEndpointIsSet) {
  for (const Variables& variables : std::vector<Variables>{
           {},
           {{"OTEL_SERVICE_NAME", "a"}},
           {{"OTEL_TRACES_EXPORTER", "none"},
            {"OTEL_METRICS_EXPORTER", "none"},
            {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"}},
           {{"OTEL_SDK_DISABLED", "True"}, {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"}},
           // Of other programs, as long as nothing is sent.
           {{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, {"OTEL_TRACES_SAMPLER", "jaeger_remote"}},
       }) {
    const TelemetrySettings settings = read(variables);
    EXPECT_FALSE(settings.traces);
    EXPECT_FALSE(settings.metrics);
  }
}

TEST(TelemetrySettings, HaveAnEndpointForAllOrForEach) {
  const TelemetrySettings common = read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4318/base/"}});
  EXPECT_EQ(common.traces->url, "https://collector:4318/base/v1/traces");
  EXPECT_EQ(common.metrics->url, "https://collector:4318/base/v1/metrics");
  EXPECT_EQ(common.resource, (std::vector<std::pair<std::string, std::string>>{{"service.name", "gpux"}}));
  const TelemetrySettings own = read({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces/as/it/is"}});
  EXPECT_EQ(own.traces->url, "http://traces/as/it/is");
  EXPECT_FALSE(own.metrics);
  EXPECT_EQ(read({{"OTEL_TRACES_EXPORTER", "otlp"}}).traces->url, "http://localhost:4318/v1/traces");
}

TEST(TelemetrySettings, ReadTheRest) {
  const TelemetrySettings settings =
      read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"},
            {"OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x=1"},
            {"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "y=2"},
            {"OTEL_EXPORTER_OTLP_TIMEOUT", "2500"},
            {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "100"},
            {"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"},
            {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"},
            {"OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=b"},
            {"OTEL_TRACES_SAMPLER", "parentbased_traceidratio"},
            {"OTEL_TRACES_SAMPLER_ARG", "0.1"},
            {"OTEL_PROPAGATORS", "tracecontext,baggage"},
            {"OTEL_BSP_MAX_QUEUE_SIZE", "100"},
            {"OTEL_BSP_SCHEDULE_DELAY", "200"},
            {"OTEL_METRIC_EXPORT_INTERVAL", "1000"}});
  EXPECT_THAT(settings.traces->headers, ElementsAre(Pair("api-key", "a b"), Pair("x", "1")));
  EXPECT_THAT(settings.metrics->headers, ElementsAre(Pair("y", "2")));
  EXPECT_EQ(settings.traces->timeout, std::chrono::milliseconds(100));
  EXPECT_EQ(settings.metrics->timeout, std::chrono::milliseconds(2500));
  EXPECT_TRUE(settings.traces->compresses);
  EXPECT_EQ(settings.traces->ca_file, "/ca.pem");
  EXPECT_THAT(settings.resource, ElementsAre(Pair("service.name", "b"), Pair("deployment.environment.name", "test")));
  EXPECT_EQ(settings.sampler.kind, Sampler::Kind::ratio);
  EXPECT_EQ(settings.sampler.ratio, 0.1);
  EXPECT_TRUE(settings.sampler.follows_parent);
  EXPECT_TRUE(settings.reads_parent);
  EXPECT_EQ(settings.max_queue, 100);
  EXPECT_EQ(settings.max_batch, 100);
  EXPECT_EQ(settings.schedule_delay, std::chrono::milliseconds(200));
  EXPECT_EQ(settings.metric_interval, std::chrono::seconds(1));
}

TEST(TelemetrySettings, RefuseWhatIsNotAcceptedByName) {
  const std::vector<std::pair<Variables, std::string>> cases{
      {{{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}}, "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; accepted: http/protobuf"},
      {{{"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json"}}, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL is 'http/json'"},
      {{{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4318"}}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is"},
      {{{"OTEL_EXPORTER_OTLP_HEADERS", "secret"}}, "OTEL_EXPORTER_OTLP_HEADERS has a part that is not name=value"},
      {{{"OTEL_EXPORTER_OTLP_TIMEOUT", "soon"}}, "OTEL_EXPORTER_OTLP_TIMEOUT is 'soon'"},
      {{{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"}}, "OTEL_EXPORTER_OTLP_COMPRESSION is 'zstd'; accepted: gzip, none"},
      {{{"OTEL_TRACES_EXPORTER", "zipkin"}}, "OTEL_TRACES_EXPORTER is 'zipkin'; accepted: otlp, none"},
      {{{"OTEL_TRACES_SAMPLER", "parentbased_jaeger_remote"}}, "OTEL_TRACES_SAMPLER is"},
      {{{"OTEL_TRACES_SAMPLER", "traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", "1.5"}}, "accepted: 0 to 1"},
      {{{"OTEL_PROPAGATORS", "b3"}}, "OTEL_PROPAGATORS is 'b3'"},
      {{{"OTEL_BSP_MAX_QUEUE_SIZE", "10"}, {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "11"}}, "from 1 to 10"},
      {{{"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta"}}, "accepted: cumulative"},
      {{{"OTEL_SDK_DISABLED", "yes"}}, "OTEL_SDK_DISABLED is 'yes'"},
  };
  for (auto [variables, message] : cases) {
    variables.emplace("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a");
    try {
      (void)read(variables);
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.message(), HasSubstr(message));
      EXPECT_THAT(error.message(), testing::Not(HasSubstr("secret")));
    }
  }
}

}  // namespace
}  // namespace gpux::server
