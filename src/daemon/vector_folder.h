#pragma once

#include <filesystem>
#include <string>

#include "daemon/sink.h"

namespace gpux::daemon {

/// FOLDER/vectors/HASH.vec, FOLDER/timing/HASH.json, and FOLDER/rejected/HASH.json of what was set aside, each in its
/// place as a whole or not at all. The .vec is the last of an event.
class VectorFolder final : public EventSink {
 public:
  /// Makes the folders, and removes what a process left there that was killed: there may be one at a time.
  /// Errors storage, permission.
  explicit VectorFolder(std::filesystem::path folder);

  [[nodiscard]] bool has(const std::string& hash) const override;
  /// Whether the event was set aside.
  [[nodiscard]] bool has_rejected(const std::string& hash) const;
  void write(std::span<const EmbeddedEvent> embedded, std::span<const RefusedEvent> refused) override;

 private:
  struct Written {
    std::filesystem::path temporary, place;
  };

  [[nodiscard]] Written put(const char* folder, const std::string& name, std::string_view content) const;

  std::filesystem::path folder_;
};

/// A time in UTC: "2026-01-31T12:00:00.123Z".
std::string utc_time(std::chrono::system_clock::time_point time);

/// The content of HASH.vec: one JSON object {"hash", "vector", "metadata"}, a line.
std::string vec_document(const EmbeddedEvent& event);
/// The content of timing/HASH.json, a line.
std::string timing_document(const EmbeddedEvent& event);
/// The content of rejected/HASH.json, a line.
std::string refusal_document(const RefusedEvent& event);

}  // namespace gpux::daemon
