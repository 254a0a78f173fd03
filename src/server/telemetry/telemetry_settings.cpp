#include "server/telemetry/telemetry_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "gpux/error.h"
#include "server/http/header_value.h"
#include "server/http/message.h"

namespace gpux::server {
namespace {

using Variable = std::function<std::string(const std::string&)>;

[[noreturn]] void refuse(const std::string& name, const std::string& value, std::string_view accepted) {
  throw Error(ErrorCode::usage, fmt::format("{} is '{}'; accepted: {}", name, value, accepted));
}

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (const std::string_view part = http::trimmed(text.substr(0, comma)); !part.empty()) parts.push_back(part);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

// %XX of W3C baggage; a text that cannot be decoded stands for itself.
std::string decoded(std::string_view text) {
  return http::percent_decoded(text).value_or(std::string(text));
}

// "name=value,name=value".
std::vector<std::pair<std::string, std::string>> read_pairs(const std::string& name, const std::string& value) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string_view part : parts_of(value)) {
    const std::size_t equals = part.find('=');
    const std::string_view key = http::trimmed(part.substr(0, std::min(equals, part.size())));
    // A value may be a secret: it is not repeated.
    if (equals == std::string_view::npos || key.empty()) {
      throw Error(ErrorCode::usage, fmt::format("{} has a part that is not name=value", name));
    }
    pairs.emplace_back(std::string(key), decoded(http::trimmed(part.substr(equals + 1))));
  }
  return pairs;
}

std::uint64_t read_whole(const Variable& variable, const std::string& name, std::uint64_t otherwise,
                         std::uint64_t lowest, std::uint64_t highest) {
  const std::string text = variable(name);
  if (text.empty()) return otherwise;
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size() || number < lowest || number > highest) {
    refuse(name, text, fmt::format("a whole number from {} to {}", lowest, highest));
  }
  return number;
}

std::chrono::milliseconds read_time(const Variable& variable, const std::string& name,
                                    std::chrono::milliseconds otherwise) {
  constexpr std::uint64_t day_ms = 86'400'000;
  return std::chrono::milliseconds(
      read_whole(variable, name, static_cast<std::uint64_t>(otherwise.count()), 1, day_ms));
}

bool read_flag(const Variable& variable, const std::string& name) {
  std::string text = variable(name);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text == "true") return true;
  if (text.empty() || text == "false") return false;
  refuse(name, text, "true, false");
}

// The variable of one signal, or that of all.
std::pair<std::string, std::string> own_or_common(const Variable& variable, std::string_view signal,
                                                  std::string_view what) {
  std::string own = fmt::format("OTEL_EXPORTER_OTLP_{}_{}", signal, what);
  if (std::string value = variable(own); !value.empty()) return {std::move(own), std::move(value)};
  std::string common = fmt::format("OTEL_EXPORTER_OTLP_{}", what);
  std::string value = variable(common);
  return {std::move(common), std::move(value)};
}

void require_http(const std::string& name, const std::string& url) {
  if (!url.starts_with("http://") && !url.starts_with("https://")) refuse(name, url, "http://… or https://…");
}

// Empty where the signal has no endpoint of its own, and there is none for all.
std::string read_url(const Variable& variable, std::string_view signal, std::string_view path) {
  const std::string own = fmt::format("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal);
  if (std::string url = variable(own); !url.empty()) {
    require_http(own, url);
    return url;
  }
  const std::string common = "OTEL_EXPORTER_OTLP_ENDPOINT";
  std::string url = variable(common);
  if (url.empty()) return {};
  require_http(common, url);
  while (url.ends_with('/')) url.pop_back();
  return url.append(path);
}

std::optional<OtlpTarget> read_target(const Variable& variable, std::string_view signal, std::string_view path) {
  const std::string exporter_name = fmt::format("OTEL_{}_EXPORTER", signal), exporter = variable(exporter_name);
  if (exporter == "none") return std::nullopt;
  if (!exporter.empty() && exporter != "otlp") refuse(exporter_name, exporter, "otlp, none");
  OtlpTarget target{
      .url = read_url(variable, signal, path), .headers = {}, .ca_file = {}, .certificate = {}, .key = {}};
  if (target.url.empty()) {
    if (exporter.empty()) return std::nullopt;
    target.url = fmt::format("http://localhost:4318{}", path);
  }
  if (const auto [name, value] = own_or_common(variable, signal, "PROTOCOL");
      !value.empty() && value != "http/protobuf") {
    refuse(name, value, "http/protobuf");
  }
  const auto [coding_name, coding] = own_or_common(variable, signal, "COMPRESSION");
  if (!coding.empty() && coding != "none" && coding != "gzip") refuse(coding_name, coding, "gzip, none");
  target.compresses = coding == "gzip";
  const auto [headers_name, headers] = own_or_common(variable, signal, "HEADERS");
  target.headers = read_pairs(headers_name, headers);
  const std::string timeout = own_or_common(variable, signal, "TIMEOUT").first;
  target.timeout = read_time(variable, timeout, target.timeout);
  target.ca_file = own_or_common(variable, signal, "CERTIFICATE").second;
  target.certificate = own_or_common(variable, signal, "CLIENT_CERTIFICATE").second;
  target.key = own_or_common(variable, signal, "CLIENT_KEY").second;
  return target;
}

Sampler read_sampler(const Variable& variable) {
  const std::string name = "OTEL_TRACES_SAMPLER", argument_name = "OTEL_TRACES_SAMPLER_ARG";
  const std::string text = variable(name), argument = variable(argument_name);
  constexpr std::array<std::pair<std::string_view, Sampler::Kind>, 3> kinds{{
      {"always_on", Sampler::Kind::always_on},
      {"always_off", Sampler::Kind::always_off},
      {"traceidratio", Sampler::Kind::ratio},
  }};
  Sampler sampler;
  if (!text.empty()) {
    constexpr std::string_view by_parent = "parentbased_";
    sampler.follows_parent = text.starts_with(by_parent);
    const std::string_view kind = std::string_view(text).substr(sampler.follows_parent ? by_parent.size() : 0);
    const auto* const found = std::ranges::find(kinds, kind, &std::pair<std::string_view, Sampler::Kind>::first);
    if (found == kinds.end()) {
      refuse(name, text, "always_on, always_off, traceidratio, and parentbased_ with one of them");
    }
    sampler.kind = found->second;
  }
  if (sampler.kind != Sampler::Kind::ratio || argument.empty()) return sampler;
  const auto [end, failure] = std::from_chars(argument.data(), argument.data() + argument.size(), sampler.ratio);
  const bool is_number = failure == std::errc() && end == argument.data() + argument.size();
  if (!is_number || !(sampler.ratio >= 0 && sampler.ratio <= 1)) refuse(argument_name, argument, "0 to 1");
  return sampler;
}

bool read_propagators(const Variable& variable) {
  const std::string name = "OTEL_PROPAGATORS", text = variable(name);
  if (text.empty()) return true;
  bool reads_parent = false;
  for (const std::string_view part : parts_of(text)) {
    if (part == "tracecontext") reads_parent = true;
    if (part != "tracecontext" && part != "baggage" && part != "none")
      refuse(name, text, "tracecontext, baggage, none");
  }
  return reads_parent;
}

std::vector<std::pair<std::string, std::string>> read_resource(const Variable& variable,
                                                               const std::string& service_name) {
  auto attributes = read_pairs("OTEL_RESOURCE_ATTRIBUTES", variable("OTEL_RESOURCE_ATTRIBUTES"));
  constexpr std::string_view key = "service.name";
  std::string name = variable("OTEL_SERVICE_NAME");
  const auto given = std::ranges::find(attributes, key, &std::pair<std::string, std::string>::first);
  if (given != attributes.end()) {
    if (name.empty()) name = given->second;
    attributes.erase(given);
  }
  attributes.emplace(attributes.begin(), std::string(key), name.empty() ? service_name : name);
  return attributes;
}

}  // namespace

TelemetrySettings read_telemetry_settings(const Variable& variable, const std::string& service_name) {
  TelemetrySettings settings;
  if (read_flag(variable, "OTEL_SDK_DISABLED")) return settings;
  settings.traces = read_target(variable, "TRACES", "/v1/traces");
  settings.metrics = read_target(variable, "METRICS", "/v1/metrics");
  if (!settings.traces && !settings.metrics) return settings;
  settings.sampler = read_sampler(variable);
  settings.reads_parent = read_propagators(variable);
  settings.resource = read_resource(variable, service_name);
  constexpr std::uint64_t max_spans = 1 << 20;
  settings.max_queue = read_whole(variable, "OTEL_BSP_MAX_QUEUE_SIZE", settings.max_queue, 1, max_spans);
  settings.max_batch = read_whole(variable, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
                                  std::min(settings.max_batch, settings.max_queue), 1, settings.max_queue);
  settings.schedule_delay = read_time(variable, "OTEL_BSP_SCHEDULE_DELAY", settings.schedule_delay);
  const std::string temporality = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
  if (const std::string value = variable(temporality); !value.empty() && value != "cumulative") {
    refuse(temporality, value, "cumulative");
  }
  settings.metric_interval = read_time(variable, "OTEL_METRIC_EXPORT_INTERVAL", settings.metric_interval);
  return settings;
}

}  // namespace gpux::server
