#include "server/telemetry/exporters.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/log.h"
#include "gpux/error.h"

namespace gpux::server {

SpanExporter::SpanExporter(TelemetrySettings settings)
    : settings_(std::move(settings)),
      connection_(settings_.traces.value_or(OtlpTarget()), "traces"),
      thread_([this] { work(); }) {}

SpanExporter::~SpanExporter() {
  std::unique_lock lock(mutex_);
  is_ending_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, shutdown_time, [&] { return has_ended_; });
  lock.unlock();
  connection_.stop();
  thread_.join();
}

void SpanExporter::add(std::vector<Span>&& spans) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const std::size_t room = settings_.max_queue - std::min(settings_.max_queue, queue_.size());
    const std::size_t taken = std::min(room, spans.size());
    std::move(spans.begin(), spans.begin() + static_cast<std::ptrdiff_t>(taken), std::back_inserter(queue_));
    counts_.dropped += spans.size() - taken;
    if (queue_.size() >= settings_.max_batch) changed_.notify_all();
  } catch (...) {  // no memory: the request goes on
  }
}

SpanCounts SpanExporter::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::uint64_t SpanExporter::send(const std::vector<Span>& batch) {
  try {
    return connection_.send(trace_message(batch, settings_.resource), batch.size());
  } catch (const std::exception& error) {
    log::warning("spans could not be written: {}", error.what());
    return 0;
  }
}

void SpanExporter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait_for(lock, settings_.schedule_delay,
                      [&] { return is_ending_ || queue_.size() >= settings_.max_batch; });
    if (queue_.empty()) {
      if (is_ending_) break;
      continue;
    }
    const std::size_t count = std::min(queue_.size(), settings_.max_batch);
    const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<Span> batch;
    try {
      batch.assign(std::move_iterator(queue_.begin()), std::move_iterator(end));
    } catch (const std::bad_alloc&) {  // they are dropped
    }
    queue_.erase(queue_.begin(), end);
    lock.unlock();
    const std::uint64_t sent = send(batch);
    lock.lock();
    counts_.sent += sent;
    counts_.dropped += count - sent;
  }
  has_ended_ = true;
  changed_.notify_all();
}

MetricExporter::MetricExporter(TelemetrySettings settings, std::function<std::string()> page)
    : settings_(std::move(settings)),
      page_(std::move(page)),
      connection_(settings_.metrics.value_or(OtlpTarget()), "metrics"),
      thread_([this] { work(); }) {}

MetricExporter::~MetricExporter() {
  std::unique_lock lock(mutex_);
  is_ending_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, SpanExporter::shutdown_time, [&] { return has_ended_; });
  lock.unlock();
  connection_.stop();
  thread_.join();
}

void MetricExporter::work() {
  bool is_last = false;
  while (!is_last) {
    {
      std::unique_lock lock(mutex_);
      is_last = changed_.wait_for(lock, settings_.metric_interval, [&] { return is_ending_; });
    }
    try {
      (void)connection_.send(metrics_message(page_(), settings_.resource, start_, std::chrono::system_clock::now()), 1);
    } catch (const std::exception& error) {
      log::warning("the metrics could not be written: {}", error.what());
    }
  }
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

}  // namespace gpux::server
