#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/event_text.h"

namespace gpux::daemon {

/// An event with its vector.
struct EmbeddedEvent {
  std::string hash, source, position;
  Event event;
  std::vector<float> vector;
  std::string model, digest, level;             ///< that made it; `level` is empty where a model was named
  std::string provider;                         ///< that holds the model's nodes
  std::chrono::system_clock::time_point taken;  ///< by the daemon
  std::chrono::system_clock::time_point embedded;
  double embed_ms = 0;  ///< time of the run alone, in milliseconds
};

/// An event that is no event, or has no vector.
struct RefusedEvent {
  std::string hash, source, position;
  std::string reason;   ///< one line
  std::string content;  ///< what it begins with
  std::chrono::system_clock::time_point taken;
};

/// Destination of vectors: a folder of files, and the place for a vector database.
class EventSink {
 public:
  EventSink() = default;
  virtual ~EventSink() = default;
  EventSink(const EventSink&) = delete;
  EventSink& operator=(const EventSink&) = delete;

  /// Whether the event of this hash is there already, with its vector or as one that was set aside. From any thread.
  [[nodiscard]] virtual bool has(const std::string& hash) const = 0;

  /// When it returns all of them are there as a whole, also behind a power cut. What is there already is replaced by
  /// the same. By one thread at a time. Errors storage, permission, not_found: any of them may be there or not, and it
  /// can be called with them again.
  virtual void write(std::span<const EmbeddedEvent> embedded, std::span<const RefusedEvent> refused) = 0;
};

}  // namespace gpux::daemon
