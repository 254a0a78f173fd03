#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "project/project_schema.h"

namespace gpux::daemon {

/// A source of events, as the state file declares it.
struct DeclaredSource {
  enum class Kind : std::uint8_t {
    directory,  ///< each *.json in it is an event
    file,       ///< JSON lines, appended to by others
    socket,     ///< JSON lines sent to a unix socket
    bus,        ///< signals of D-Bus
  };

  std::string name;
  Kind kind = Kind::directory;
  std::filesystem::path path;      ///< absolute; of all but the bus
  std::vector<std::string> match;  ///< the bus's match rules
  std::string bus = "system";      ///< "system", "session", or an address

  bool operator==(const DeclaredSource&) const = default;
};

struct EventLimits {
  std::uint64_t event_bytes = std::uint64_t{1} << 20;  ///< maximum size of one event as it arrives
  int event_depth = 64;                                ///< lists and objects within each other
  /// Events of a socket or of the bus that wait to be embedded, as they came. Beyond it sockets are not read, and
  /// signals are lost.
  std::uint64_t journal_bytes = std::uint64_t{1} << 30;
  unsigned connections = 256;  ///< maximum connections of a socket at the same time

  bool operator==(const EventLimits&) const = default;
};

/// When a lesser level is taken so as to catch up.
struct Downgrade {
  std::string level;
  std::uint64_t above = 0;  ///< events waiting
  std::uint64_t below = 0;  ///< from so many on it is the declared level again

  bool operator==(const Downgrade&) const = default;
};

/// The sources that a daemon watches and the output that it writes (docs/daemon.md).
struct StateFile {
  std::filesystem::path file;
  std::filesystem::path output;  ///< absolute
  std::string model, level;      ///< one of them at most
  std::string features;          ///< "heuristic": instead of vectors of a model; empty: not said
  std::string model_dir;         ///< absolute
  std::string provider;
  std::optional<std::uint32_t> device;
  std::optional<unsigned> workers;
  std::optional<Downgrade> downgrade;
  EventLimits limits;
  std::chrono::milliseconds rescan{30'000};
  std::vector<DeclaredSource> sources;
};

/// The state file's keys.
const SchemaKey& state_schema() noexcept;

/// Paths are relative to the file's folder. Errors not_found, storage; invalid_config "FILE:LINE:COLUMN: …" for all
/// that is wrong; usage where it is a state file of op-dbus itself.
StateFile read_state_file(const std::filesystem::path& file);
StateFile parse_state_file(std::string_view text, const std::filesystem::path& file);

}  // namespace gpux::daemon
