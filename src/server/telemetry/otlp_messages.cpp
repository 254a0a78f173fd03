#include "server/telemetry/otlp_messages.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <type_traits>
#include <utility>

#include <otlp.pb.h>

#include "server/telemetry/prometheus_page.h"

namespace gpux::server {
namespace {

using Time = std::chrono::system_clock::time_point;

constexpr std::string_view schema_url = "https://opentelemetry.io/schemas/1.37.0";
constexpr int error_status = 2, cumulative = 2;

std::uint64_t nanoseconds(Time time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

template <std::size_t Size>
std::string bytes_of(const std::array<std::uint8_t, Size>& id) {
  return {id.begin(), id.end()};
}

template <typename Message>
void add_attribute(Message& message, std::string_view name, const AttributeValue& value) {
  otlp::KeyValue& attribute = *message.add_attributes();
  attribute.set_key(std::string(name));
  otlp::AnyValue& any = *attribute.mutable_value();
  std::visit(
      [&]<typename Value>(const Value& one) {
        if constexpr (std::is_same_v<Value, std::string>) any.set_string_value(one);
        if constexpr (std::is_same_v<Value, std::int64_t>) any.set_int_value(one);
        if constexpr (std::is_same_v<Value, double>) any.set_double_value(one);
        if constexpr (std::is_same_v<Value, bool>) any.set_bool_value(one);
      },
      value);
}

void fill(otlp::Resource& resource, const ResourceAttributes& attributes) {
  for (const auto& [name, value] : attributes) add_attribute(resource, name, value);
}

void fill(otlp::Span& message, const Span& span) {
  message.set_trace_id(bytes_of(span.context.trace));
  message.set_span_id(bytes_of(span.context.span));
  if (span.parent != SpanId{}) message.set_parent_span_id(bytes_of(span.parent));
  message.set_name(span.name);
  message.set_kind(static_cast<int>(span.kind));
  message.set_start_time_unix_nano(nanoseconds(span.start));
  message.set_end_time_unix_nano(nanoseconds(span.end));
  message.set_flags(1);
  for (const Attribute& attribute : span.attributes) add_attribute(message, attribute.name, attribute.value);
  for (const SpanEvent& event : span.events) {
    otlp::Event& added = *message.add_events();
    added.set_name(event.name);
    added.set_time_unix_nano(nanoseconds(event.time));
    for (const Attribute& attribute : event.attributes) add_attribute(added, attribute.name, attribute.value);
  }
  if (!span.is_error) return;
  message.mutable_status()->set_code(error_status);
  message.mutable_status()->set_message(span.error);
}

std::string bytes_of_digits(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, value, 16);
    bytes += static_cast<char>(value);
  }
  return bytes;
}

void fill(otlp::Exemplar& message, const MetricExemplar& exemplar) {
  message.set_trace_id(bytes_of_digits(exemplar.trace_id));
  message.set_span_id(bytes_of_digits(exemplar.span_id));
  message.set_as_double(exemplar.value);
  message.set_time_unix_nano(static_cast<std::uint64_t>(exemplar.time_seconds * 1e9));
}

template <typename Point>
void fill_point(Point& point, const std::vector<std::pair<std::string, std::string>>& labels, Time start, Time now) {
  point.set_start_time_unix_nano(nanoseconds(start));
  point.set_time_unix_nano(nanoseconds(now));
  for (const auto& [name, value] : labels) add_attribute(point, name, value);
}

void fill(otlp::Metric& metric, const MetricFamily& family, Time start, Time now) {
  metric.set_name(family.name);
  metric.set_description(family.help);
  if (family.name.ends_with("_seconds") || family.name.starts_with("gen_ai.server.") ||
      family.name.ends_with(".duration"))
    metric.set_unit("s");
  if (family.name.find("_bytes") != std::string::npos) metric.set_unit("By");
  for (const MetricSample& sample : family.samples) {
    if (family.kind == MetricFamily::Kind::histogram) {
      otlp::Histogram& histogram = *metric.mutable_histogram();
      histogram.set_aggregation_temporality(cumulative);
      otlp::HistogramDataPoint& point = *histogram.add_data_points();
      fill_point(point, sample.labels, start, now);
      point.set_count(sample.count);
      point.set_sum(sample.value);
      for (const double bound : sample.bounds) point.add_explicit_bounds(bound);
      for (const std::uint64_t count : sample.bucket_counts) point.add_bucket_counts(count);
      for (const MetricExemplar& exemplar : sample.exemplars) fill(*point.add_exemplars(), exemplar);
      continue;
    }
    const bool is_sum = family.kind == MetricFamily::Kind::counter;
    if (is_sum) {
      metric.mutable_sum()->set_aggregation_temporality(cumulative);
      metric.mutable_sum()->set_is_monotonic(true);
    }
    otlp::NumberDataPoint& point =
        is_sum ? *metric.mutable_sum()->add_data_points() : *metric.mutable_gauge()->add_data_points();
    fill_point(point, sample.labels, start, now);
    point.set_as_double(sample.value);
  }
}

// The histograms that the semantic conventions have a name for, with their attributes.
std::optional<MetricFamily> conventional(const MetricFamily& family) {
  std::string_view name;
  if (family.name == "gpux_time_to_first_token_seconds") name = "gen_ai.server.time_to_first_token";
  if (family.name == "gpux_time_between_tokens_seconds") name = "gen_ai.server.time_per_output_token";
  if (family.name == "gpux_http_request_duration_seconds") name = "http.server.request.duration";
  if (name.empty()) return std::nullopt;
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> label_names{{
      {"model", "gen_ai.request.model"},
      {"method", "http.request.method"},
      {"route", "http.route"},
      {"status", "http.response.status_code"},
  }};
  MetricFamily renamed = family;
  renamed.name = name;
  for (MetricSample& sample : renamed.samples) {
    for (auto& [label, value] : sample.labels) {
      const auto* const found =
          std::ranges::find(label_names, label, &std::pair<std::string_view, std::string_view>::first);
      if (found != label_names.end()) label = found->second;
    }
    if (!name.starts_with("gen_ai.")) continue;
    sample.labels.emplace_back("gen_ai.provider.name", "gpux");
    sample.labels.emplace_back("gen_ai.operation.name", "generate_content");
  }
  return renamed;
}

}  // namespace

std::string trace_message(std::span<const Span> spans, const ResourceAttributes& resource) {
  otlp::ExportTraceServiceRequest request;
  otlp::ResourceSpans& all = *request.add_resource_spans();
  fill(*all.mutable_resource(), resource);
  otlp::ScopeSpans& scope = *all.add_scope_spans();
  scope.mutable_scope()->set_name("gpux");
  scope.set_schema_url(std::string(schema_url));
  for (const Span& span : spans) fill(*scope.add_spans(), span);
  return request.SerializeAsString();
}

std::string metrics_message(std::string_view prometheus_text, const ResourceAttributes& resource, Time start,
                            Time now) {
  otlp::ExportMetricsServiceRequest request;
  otlp::ResourceMetrics& all = *request.add_resource_metrics();
  fill(*all.mutable_resource(), resource);
  otlp::ScopeMetrics& scope = *all.add_scope_metrics();
  scope.mutable_scope()->set_name("gpux");
  scope.set_schema_url(std::string(schema_url));
  for (const MetricFamily& family : read_prometheus(prometheus_text)) {
    if (family.samples.empty()) continue;
    fill(*scope.add_metrics(), family, start, now);
    if (const auto renamed = conventional(family)) fill(*scope.add_metrics(), *renamed, start, now);
  }
  return request.SerializeAsString();
}

Refused read_refused(std::string_view answer) {
  otlp::ExportServiceResponse response;
  if (!response.ParseFromArray(answer.data(), static_cast<int>(answer.size()))) return {};
  return {response.partial_success().rejected(), response.partial_success().error_message()};
}

}  // namespace gpux::server
