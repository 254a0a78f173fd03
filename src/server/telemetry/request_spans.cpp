#include "server/telemetry/request_spans.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gpux::server {

RequestSpans::RequestSpans(SpanContext context, const std::optional<SpanContext>& parent, std::string name,
                           Clock::time_point arrived, Sink sink, SpanKind kind)
    : context_(context), now_(Clock::now()), wall_now_(std::chrono::system_clock::now()), sink_(std::move(sink)) {
  spans_.push_back({.context = context,
                    .parent = parent ? parent->span : SpanId{},
                    .name = std::move(name),
                    .kind = kind,
                    .start = at(arrived),
                    .end = {},
                    .attributes = {},
                    .events = {},
                    .error = {}});
}

RequestSpans::~RequestSpans() {
  std::vector<Span> spans;
  {
    const std::lock_guard lock(mutex_);
    spans = std::move(spans_);
    if (spans.empty()) return;
    spans.front().is_error = true;
    spans.front().error = "the client left";
    finish(spans);
  }
  sink_(std::move(spans));
}

std::chrono::system_clock::time_point RequestSpans::at(Clock::time_point time) const {
  return wall_now_ + std::chrono::duration_cast<std::chrono::system_clock::duration>(time - now_);
}

SpanId RequestSpans::add(std::string name, Clock::time_point start, Clock::time_point end,
                         std::vector<Attribute> attributes,
                         std::vector<std::pair<std::string, Clock::time_point>> events,
                         const std::optional<SpanId>& within) {
  const SpanId id = new_span_id();
  Span span{.context = {context_.trace, id, true},
            .parent = within.value_or(context_.span),
            .name = std::move(name),
            .start = at(start),
            .end = at(std::max(start, end)),
            .attributes = std::move(attributes),
            .events = {},
            .error = {}};
  for (auto& [event, time] : events) span.events.push_back({std::move(event), at(time)});
  const std::lock_guard lock(mutex_);
  if (spans_.empty()) return id;
  if (spans_.size() > max_phases) {
    ++dropped_;
  } else {
    spans_.push_back(std::move(span));
  }
  return id;
}

void RequestSpans::set(std::string name, AttributeValue value) {
  const std::lock_guard lock(mutex_);
  if (spans_.empty()) return;
  std::vector<Attribute>& attributes = spans_.front().attributes;
  const auto found = std::ranges::find(attributes, name, &Attribute::name);
  if (found == attributes.end()) {
    attributes.push_back({std::move(name), std::move(value)});
  } else {
    found->value = std::move(value);
  }
}

void RequestSpans::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (spans_.empty()) return;
  spans_.front().is_error = true;
  spans_.front().error = reason;
}

void RequestSpans::end(End end) {
  std::vector<Span> spans;
  {
    const std::lock_guard lock(mutex_);
    if (spans_.empty()) return;
    spans = std::exchange(spans_, {});
    Span& whole = spans.front();
    whole.attributes.push_back(std::move(end.status));
    if (!end.error_type.empty()) {
      whole.is_error = true;
      if (whole.error.empty()) whole.error = std::move(end.error);
      whole.attributes.push_back({"error.type", std::move(end.error_type)});
    }
    finish(spans);
  }
  sink_(std::move(spans));
}

void RequestSpans::finish(std::vector<Span>& spans) {
  spans.front().end = at(Clock::now());
  if (dropped_ != 0) {
    spans.front().attributes.push_back({"gpux.dropped_spans", static_cast<std::int64_t>(dropped_)});
  }
}

RequestSpans::End http_end(int status) {
  constexpr int first_failure = 500;
  return {.status = {"http.response.status_code", std::int64_t{status}},
          .error_type = status >= first_failure ? std::to_string(status) : ""};
}

RequestSpans::End grpc_end(int code, std::string_view name, std::string message) {
  // UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS.
  constexpr std::array<int, 6> failures{2, 4, 12, 13, 14, 15};
  const bool has_failed = std::ranges::find(failures, code) != failures.end();
  return {.status = {"rpc.grpc.status_code", std::int64_t{code}},
          .error_type = has_failed ? std::string(name) : "",
          .error = std::move(message)};
}

}  // namespace gpux::server
