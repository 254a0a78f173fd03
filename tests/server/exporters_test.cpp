// Exporters with a receiver on this machine.
#include "server/telemetry/exporters.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <otlp.pb.h>

#include "server/http/server.h"

namespace gpux::server {
namespace {

using namespace std::chrono_literals;

/// Keeps what it is sent, and answers with the statuses in their order, then with 200.
class Receiver {
 public:
  explicit Receiver(std::vector<int> statuses = {}) : statuses_(std::move(statuses)) {
    http::ServerOptions options;
    options.port = 0;
    server_ = std::make_unique<http::Server>(
        options, [this](const std::shared_ptr<http::Exchange>& exchange) { take(exchange); },
        [](const http::Request&) { return http::Admitted(); });
    server_->start();
  }

  [[nodiscard]] TelemetrySettings settings() const {
    TelemetrySettings settings;
    const std::string address = "http://127.0.0.1:" + std::to_string(server_->port());
    settings.traces = OtlpTarget{
        .url = address + "/v1/traces", .headers = {{"api-key", "a"}}, .ca_file = {}, .certificate = {}, .key = {}};
    settings.metrics =
        OtlpTarget{.url = address + "/v1/metrics", .headers = {}, .ca_file = {}, .certificate = {}, .key = {}};
    settings.resource = {{"service.name", "g"}};
    settings.schedule_delay = 20ms;
    settings.metric_interval = 20ms;
    return settings;
  }

  /// Waits for so many bodies that were taken.
  std::vector<std::string> bodies(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 20s, [&] { return bodies_.size() >= count; });
    return bodies_;
  }

  [[nodiscard]] std::vector<std::string> fields() {
    const std::lock_guard lock(mutex_);
    return fields_;
  }

 private:
  void take(const std::shared_ptr<http::Exchange>& exchange) {
    int status = 200;
    {
      const std::lock_guard lock(mutex_);
      if (next_ < statuses_.size()) status = statuses_[next_++];
      const http::Request& request = exchange->request();
      if (status == 200) {
        bodies_.emplace_back(request.body.text());
        fields_.push_back(std::string(request.headers["Content-Type"]) + " " + std::string(request.headers["api-key"]));
      }
    }
    changed_.notify_all();
    http::Response response;
    response.status = status;
    response.headers.add("Content-Type", "application/x-protobuf");
    exchange->respond(std::move(response));
  }

  std::vector<int> statuses_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0;
  std::vector<std::string> bodies_, fields_;
  std::unique_ptr<http::Server> server_;
};

std::vector<Span> spans_named(const std::string& name, std::size_t count = 1) {
  return std::vector<Span>(count, Span{.context = {.trace = {1}, .span = {1}},
                                       .name = name,
                                       .start = {},
                                       .end = {},
                                       .attributes = {},
                                       .events = {},
                                       .error = {}});
}

int spans_in(const std::string& body) {
  otlp::ExportTraceServiceRequest read;
  return read.ParseFromString(body) ? read.resource_spans(0).scope_spans(0).spans_size() : -1;
}

TEST(SpanExporter, SendsInBatchesAndTheRestAtTheEnd) {
  Receiver receiver;
  TelemetrySettings settings = receiver.settings();
  settings.schedule_delay = 10s;
  settings.max_batch = 4;
  {
    SpanExporter exporter(settings);
    exporter.add(spans_named("a", 4));
    EXPECT_EQ(spans_in(receiver.bodies(1).at(0)), 4);
    exporter.add(spans_named("b"));
  }
  const auto bodies = receiver.bodies(2);
  ASSERT_EQ(bodies.size(), 2);
  EXPECT_EQ(spans_in(bodies[1]), 1);
  EXPECT_EQ(receiver.fields()[0], "application/x-protobuf a");
}

TEST(SpanExporter, TriesAgainWhereTheReceiverIsBusy) {
  Receiver receiver({503});
  SpanExporter exporter(receiver.settings());
  exporter.add(spans_named("a"));
  EXPECT_EQ(spans_in(receiver.bodies(1).at(0)), 1);
}

TEST(SpanExporter, DropsWhatTheReceiverRefusesAndGoesOn) {
  Receiver receiver({400});
  SpanExporter exporter(receiver.settings());
  exporter.add(spans_named("a", 3));
  while (exporter.counts().dropped == 0) std::this_thread::sleep_for(5ms);
  exporter.add(spans_named("b", 2));
  EXPECT_EQ(spans_in(receiver.bodies(1).at(0)), 2);
  while (exporter.counts().sent == 0) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(exporter.counts().dropped, 3);
  EXPECT_EQ(exporter.counts().sent, 2);
}

// Nobody listens: requests go on, memory is bounded, and the end does not wait long.
TEST(SpanExporter, DropsWhatTheQueueHasNoRoomFor) {
  TelemetrySettings settings;
  settings.traces =
      OtlpTarget{.url = "http://127.0.0.1:1/v1/traces", .headers = {}, .ca_file = {}, .certificate = {}, .key = {}};
  settings.max_queue = 10;
  settings.max_batch = 10;
  const auto start = std::chrono::steady_clock::now();
  {
    SpanExporter exporter(settings);
    for (int i = 0; i < 100; ++i) exporter.add(spans_named("a"));
    EXPECT_GE(exporter.counts().dropped, 80);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, SpanExporter::shutdown_time + 5s);
}

TEST(SpanExporter, Compresses) {
  Receiver receiver;
  TelemetrySettings settings = receiver.settings();
  settings.traces->compresses = true;
  SpanExporter exporter(settings);
  exporter.add(spans_named("a", 100));
  // The server has undone it.
  EXPECT_EQ(spans_in(receiver.bodies(1).at(0)), 100);
}

TEST(MetricExporter, SendsThePageAtAnInterval) {
  Receiver receiver;
  const MetricExporter exporter(receiver.settings(), [] { return std::string("# TYPE a counter\na 3\n"); });
  const auto bodies = receiver.bodies(3);
  ASSERT_GE(bodies.size(), 3);
  otlp::ExportMetricsServiceRequest read;
  ASSERT_TRUE(read.ParseFromString(bodies[2]));
  EXPECT_EQ(read.resource_metrics(0).scope_metrics(0).metrics(0).name(), "a");
}

}  // namespace
}  // namespace gpux::server
