#include "daemon/store_sink.h"

#include <condition_variable>

#include <nlohmann/json.hpp>

#include "base/failure_of.h"
#include "gpux/error.h"

namespace gpux::daemon {
namespace {

using Json = nlohmann::json;

constexpr std::size_t writes_between_merges = 500;

void add_text(Json& payload, const char* name, const std::string& text) {
  if (!text.empty()) payload[name] = text;
}

// Of an event, which was read within its limits.
void add_json(Json& payload, const char* name, const std::string& json) {
  Json value = Json::parse(json.empty() ? "null" : json, nullptr, false);
  if (!value.is_null() && !value.is_discarded()) payload[name] = std::move(value);
}

}  // namespace

vector_store::Point point_of(const EmbeddedEvent& event) {
  vector_store::Point point{
      .id = event.hash, .vector = event.vector, .sparse = {}, .text = event.event.text, .payload = Json::object()};
  Json& payload = point.payload;
  payload["source"] = event.source;
  payload["position"] = event.position;
  add_text(payload, "plugin", event.event.plugin);
  add_text(payload, "operation", event.event.operation);
  add_text(payload, "data_hash", event.event.data_hash);
  add_text(payload, "level", event.level);
  add_text(payload, "provider", event.provider);
  add_json(payload, "id", event.event.id);
  add_json(payload, "timestamp", event.event.timestamp);
  add_json(payload, "metadata", event.event.metadata);
  payload["taken_at"] = utc_time(event.taken);
  payload["embedded_at"] = utc_time(event.embedded);
  return point;
}

StoreSink::StoreSink(const vector_store::StoreUrl& url)
    : written_(vector_store::open_store(url, Cancellation(given_up_.get_token()))),
      asked_(url.kind == vector_store::StoreUrl::Kind::file
                 ? written_
                 : vector_store::open_store(url, Cancellation(given_up_.get_token()))) {}

void StoreSink::prepare(const vector_store::CollectionFacts& facts) {
  const std::scoped_lock lock(mutex_);
  asked_->create(facts);
  asked_->finish();
}

bool StoreSink::has(const std::string& hash) const {
  if (folder_->has_rejected(hash)) return true;
  const std::scoped_lock lock(mutex_);
  bool is_there = false;
  (void)failure_of([&] { is_there = asked_->has(hash); });
  return is_there;
}

void StoreSink::write(std::span<const EmbeddedEvent> embedded, std::span<const RefusedEvent> refused) {
  if (!refused.empty()) folder_->write({}, refused);
  std::vector<vector_store::Point> points;
  points.reserve(embedded.size());
  for (const EmbeddedEvent& event : embedded) points.push_back(point_of(event));
  std::unique_lock lock(mutex_, std::defer_lock);
  if (written_ == asked_) lock.lock();
  written_->upsert(points);
  // A file has a segment more; many of them are written as few.
  if (written_ == asked_ && ++writes_ % writes_between_merges == 0) written_->finish();
}

std::jthread StoreSink::give_up_after(std::chrono::milliseconds time) {
  return std::jthread([this, time](const std::stop_token& joined) {
    std::mutex mutex;
    std::condition_variable_any ended;
    std::unique_lock lock(mutex);
    ended.wait_for(lock, joined, time, [] { return false; });
    if (!joined.stop_requested()) given_up_.request_stop();
  });
}

}  // namespace gpux::daemon
