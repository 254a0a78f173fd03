#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/telemetry/otlp_connection.h"
#include "server/telemetry/otlp_messages.h"
#include "server/telemetry/span.h"
#include "server/telemetry/span_counts.h"
#include "server/telemetry/telemetry_settings.h"

namespace gpux::server {

/// Sends spans in batches, on a thread of its own. Thread-safe.
class SpanExporter {
 public:
  /// `settings` have a target for traces.
  explicit SpanExporter(TelemetrySettings settings);
  /// Sends what is queued for at most `shutdown_time`.
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  static constexpr std::chrono::seconds shutdown_time{3};

  /// Takes the spans, or drops those that the queue has no room for. Does not block on the network.
  void add(std::vector<Span>&& spans) noexcept;

  [[nodiscard]] SpanCounts counts() const;

 private:
  void work();
  std::uint64_t send(const std::vector<Span>& batch);

  const TelemetrySettings settings_;
  OtlpConnection connection_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Span> queue_;
  SpanCounts counts_;
  bool is_ending_ = false, has_ended_ = false;
  std::thread thread_;
};

/// Sends the metrics at an interval, and once at the end, on a thread of its own.
class MetricExporter {
 public:
  /// `settings` have a target for metrics. `page`: in Prometheus' text format; called on the exporter's thread.
  MetricExporter(TelemetrySettings settings, std::function<std::string()> page);
  ~MetricExporter();
  MetricExporter(const MetricExporter&) = delete;
  MetricExporter& operator=(const MetricExporter&) = delete;

 private:
  void work();

  const TelemetrySettings settings_;
  const std::function<std::string()> page_;
  const std::chrono::system_clock::time_point start_ = std::chrono::system_clock::now();
  OtlpConnection connection_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false, has_ended_ = false;
  std::thread thread_;
};

}  // namespace gpux::server
