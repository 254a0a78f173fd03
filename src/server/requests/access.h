#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/requests/api_keys.h"
#include "server/requests/request_limits.h"

namespace gpux::server {

/// Who may send requests, and how many. Immutable.
struct AccessRules {
  ApiKeys keys;
  LimitRules limits;
};

/// How often the rules were read again.
struct AccessReloads {
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;  ///< what could not be used: the rules stayed as they were
};

/// The rules of a server, read again when their files change. All members from any thread.
class Access {
 public:
  using Clock = std::chrono::steady_clock;

  /// Reads the rules, and throws what makes them unusable. `before`: those in force; null: there are none yet.
  using Read = std::function<AccessRules(const AccessRules* before)>;

  /// Rules that stay as they are: by default those of a server without keys.
  explicit Access(AccessRules rules = {});

  /// `files`: those that `read` reads. Errors of `read`.
  Access(std::vector<std::filesystem::path> files, Read read);

  /// Those in force. Looks at the files once a second, and reads them again when one has changed. What cannot be used
  /// is logged, and the last rules stay in force.
  [[nodiscard]] std::shared_ptr<const AccessRules> rules(Clock::time_point now = Clock::now());

  /// Reads the files now, whether they have changed or not. False where they cannot be used; that is logged.
  bool reload();

  [[nodiscard]] AccessReloads reloads() const;

 private:
  struct Stamp {
    std::int64_t seconds = 0, nanoseconds = 0;  ///< of the last change
    std::uint64_t bytes = 0, file = 0;
    bool operator==(const Stamp&) const = default;
  };

  [[nodiscard]] std::vector<Stamp> stamps() const;
  bool read_again();

  const std::vector<std::filesystem::path> files_;
  const Read read_;  // null: the rules stay
  mutable std::mutex mutex_;
  std::vector<Stamp> stamps_;
  Clock::time_point looked_;
  AccessReloads reloads_;
  std::shared_ptr<const AccessRules> rules_;
};

}  // namespace gpux::server
