#include "server/telemetry/request_spans.h"

#include <algorithm>
#include <utility>

namespace gpux::server {

RequestSpans::RequestSpans(SpanContext context, const std::optional<SpanContext>& parent, std::string name,
                           Clock::time_point arrived, Sink sink)
    : context_(context), now_(Clock::now()), wall_now_(std::chrono::system_clock::now()), sink_(std::move(sink)) {
  spans_.push_back({.context = context,
                    .parent = parent ? parent->span : SpanId{},
                    .name = std::move(name),
                    .kind = SpanKind::server,
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

void RequestSpans::add(std::string name, Clock::time_point start, Clock::time_point end,
                       std::vector<Attribute> attributes,
                       std::vector<std::pair<std::string, Clock::time_point>> events) {
  Span span{.context = {context_.trace, new_span_id(), true},
            .parent = context_.span,
            .name = std::move(name),
            .start = at(start),
            .end = at(std::max(start, end)),
            .attributes = std::move(attributes),
            .events = {},
            .error = {}};
  for (auto& [event, time] : events) span.events.push_back({std::move(event), at(time)});
  const std::lock_guard lock(mutex_);
  if (spans_.empty()) return;
  if (spans_.size() > max_phases) {
    ++dropped_;
    return;
  }
  spans_.push_back(std::move(span));
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

void RequestSpans::end(int status) {
  constexpr int first_failure = 500;
  std::vector<Span> spans;
  {
    const std::lock_guard lock(mutex_);
    if (spans_.empty()) return;
    spans = std::exchange(spans_, {});
    spans.front().attributes.push_back({"http.response.status_code", std::int64_t{status}});
    if (status >= first_failure) {
      spans.front().is_error = true;
      spans.front().attributes.push_back({"error.type", std::to_string(status)});
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

}  // namespace gpux::server
