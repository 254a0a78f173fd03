#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace gpux::server {

/// What becomes of members of requests that change no answer here, and of members that no table of fields has. Calls
/// from any thread.
class MemberRules {
 public:
  explicit MemberRules(bool refuses_unknown) : refuses_unknown_(refuses_unknown) {}

  /// Whether a request with an unknown member is refused; else it is answered as if it were without it.
  [[nodiscard]] bool refuses_unknown() const noexcept { return refuses_unknown_; }

  /// Counts a member that was accepted without effect, by its name in the table of fields.
  void note_ignored(std::string_view name);

  /// Counts an unknown member, and logs the first one of each name. `name`: with its place, as the client wrote it.
  void note_unknown(std::string_view name);

  /// Members accepted without effect, by name.
  [[nodiscard]] std::map<std::string, std::uint64_t> ignored() const;

  [[nodiscard]] std::uint64_t unknown() const noexcept { return unknown_; }

 private:
  const bool refuses_unknown_;
  std::atomic<std::uint64_t> unknown_ = 0;
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t, std::less<>> ignored_;
  std::set<std::string, std::less<>> logged_;  // at most max_logged names: clients make them up
};

}  // namespace gpux::server
