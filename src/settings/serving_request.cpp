#include "settings/serving_request.h"

#include <functional>

#include <fmt/format.h>

namespace gpux {
namespace {

template <typename To, typename From>
std::optional<To> as(const std::optional<From>& value) {
  return value ? std::optional<To>(*value) : std::nullopt;
}

// `source(key)`: of a key in the map that the settings were taken from.
ServingRequest request_of(const ServingSettings& serving, const std::function<Source(const char*)>& source) {
  ServingRequest request;
  request.max_batch_size = setting(serving.batch_size, source("batch_size"));
  request.max_batch_cost = setting(serving.max_batch_cost, source("max_batch_cost"));
  if (serving.batching) request.batching = {read_batching(*serving.batching, source("batching")), source("batching")};
  request.padding = setting(serving.padding, source("padding"));
  request.max_queue_delay = setting(serving.max_queue_delay, source("max_queue_delay"));
  request.timeout = setting(serving.timeout, source("timeout"));
  request.max_queue = setting(as<std::size_t>(serving.max_queue), source("max_queue"));
  if (serving.workers) request.workers = {read_workers(*serving.workers, source("workers")), source("workers")};
  request.max_workers = setting(as<unsigned>(serving.max_workers), source("max_workers"));
  request.max_sequences = setting(as<std::size_t>(serving.max_sequences), source("max_sequences"));
  request.context_length = setting(as<std::size_t>(serving.context_length), source("context_length"));
  request.cache_bytes = setting(serving.cache_bytes, source("cache_memory"));
  if (!serving.warm_up.empty()) request.warm_up = {serving.warm_up, source("warm_up")};
  return request;
}

}  // namespace

TextBatching read_batching(const std::string& text, const Source& source) {
  const auto batching = embedding::batching_from(text);
  if (!batching) refuse(text, source, "exact, throughput");
  return *batching;
}

ServingRequest merge(ServingRequest first, const ServingRequest& second) {
  // All members, so that a new one does not compile until it is merged.
  const auto& [max_batch_size, max_batch_cost, batching, padding, max_queue_delay, timeout, max_queue, workers,
               max_workers, runs_in_flight, max_sequences, context_length, cache_bytes, warm_up, stop_grace,
               max_restart_delay] = second;
  fill(first.max_batch_size, max_batch_size);
  fill(first.max_batch_cost, max_batch_cost);
  fill(first.batching, batching);
  fill(first.padding, padding);
  fill(first.max_queue_delay, max_queue_delay);
  fill(first.timeout, timeout);
  fill(first.max_queue, max_queue);
  fill(first.workers, workers);
  fill(first.max_workers, max_workers);
  fill(first.runs_in_flight, runs_in_flight);
  fill(first.max_sequences, max_sequences);
  fill(first.context_length, context_length);
  fill(first.cache_bytes, cache_bytes);
  fill(first.warm_up, warm_up);
  fill(first.stop_grace, stop_grace);
  fill(first.max_restart_delay, max_restart_delay);
  return first;
}

ServingRequest serving_request_of(const ListedModel& listed, const std::string& file) {
  return request_of(listed.serving, [&](const char* key) {
    return Source{.kind = Source::Kind::file, .name = fmt::format("models.{}.{}", listed.name, key), .place = file};
  });
}

ServingRequest serving_request_of(const ProjectFile& project) {
  return request_of(project.serving, [&](const char* key) {
    std::string name = fmt::format("serving.{}", key);
    std::string place = project.where(name);
    return Source{.kind = Source::Kind::file, .name = std::move(name), .place = std::move(place)};
  });
}

}  // namespace gpux
