#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/changing_files.h"
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
  std::uint64_t failed = 0;  ///< what could not be used, once for each reason: the rules stayed as they were
};

/// The rules of a server, read again when their files change. All members from any thread.
class Access {
 public:
  using Clock = std::chrono::steady_clock;

  /// Reads the rules, and throws what makes them unusable. `before`: those in force; null: there are none yet.
  using Read = std::function<AccessRules(const AccessRules* before)>;

  /// Rules that stay as they are: by default those of a server without keys.
  explicit Access(AccessRules rules = {});

  /// Called with rules that were read again, before they are in force. Must not call this object.
  using Changed = std::function<void(const AccessRules& rules)>;

  /// `files`: those that `read` reads. `changed` may be null. Errors of `read`.
  Access(std::vector<std::filesystem::path> files, Read read, Changed changed = nullptr);

  /// Those in force. Looks at the files once a second, and reads them again when one has changed, or could not be used
  /// the last time: that is logged once for each reason, and the last rules stay in force.
  [[nodiscard]] std::shared_ptr<const AccessRules> rules(Clock::time_point now = Clock::now());

  /// Reads the files now, whether they have changed or not. False where they cannot be used; that is logged.
  bool reload();

  [[nodiscard]] AccessReloads reloads() const;

 private:
  [[nodiscard]] std::vector<FileStamp> stamps() const;
  bool read_again(bool is_asked);

  const std::vector<std::filesystem::path> files_;
  const Read read_;  // null: the rules stay
  const Changed changed_;
  std::mutex reading_;             // of what follows, while the files are looked at
  std::vector<FileStamp> stamps_;  // of what is in force; empty: of something else
  std::string problem_;            // why the files could not be used the last time; empty: they could
  Clock::time_point looked_;
  mutable std::mutex mutex_;  // of what follows
  AccessReloads reloads_;
  std::shared_ptr<const AccessRules> rules_;
};

}  // namespace gpux::server
