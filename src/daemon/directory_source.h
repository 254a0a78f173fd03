#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/unique_fd.h"
#include "daemon/source.h"

namespace gpux::daemon {

/// Whether a file that cannot be read for this reason (an errno) may be readable later though nothing about it changes:
/// the disk, the network or this process is in trouble, not the file.
bool is_passing_trouble(int error_number) noexcept;

/// Which files of a folder have been dealt with, kept in a file of lines "STAMP NAME" that is only appended to. Losing
/// lines of it costs looking at files again. Not for several threads at once.
class DoneFiles {
 public:
  /// Opens the list of files that are done. Error storage if it cannot be read.
  explicit DoneFiles(std::filesystem::path file);
  DoneFiles(const DoneFiles&) = delete;
  DoneFiles& operator=(const DoneFiles&) = delete;

  /// Whether the file was dealt with as it is now.
  [[nodiscard]] bool has(const std::string& name, std::uint64_t stamp) const;
  void add(const std::string& name, std::uint64_t stamp);
  /// Forgets all but those that `present` names, where that is worth it.
  void keep_only(const std::set<std::string>& present);

 private:
  void open();

  std::filesystem::path file_;
  std::unordered_map<std::string, std::uint64_t> stamps_;
  std::uint64_t lines_ = 0;
  UniqueFd descriptor_;
};

/// Each *.json right in a folder, but those whose name begins with a dot, is an event; its position is its name. One
/// that is written anew with another content is another event.
class DirectorySource final : public Source {
 public:
  DirectorySource(DeclaredSource declared, SourceSurroundings surroundings);
  ~DirectorySource() override;

 private:
  class Watch;

  void run(const std::stop_token& stop) override;
  void fill(SourceStatus& status) const override;
  void watch(const std::stop_token& stop);
  /// Names of all files that may be events and were not dealt with; false where there is no such folder.
  bool scan();
  /// False where it was stopped.
  bool offer(const std::string& name, const std::stop_token& stop);
  bool put(const std::string& name, std::uint64_t stamp, WaitingEvent event, const std::stop_token& stop);
  void ended(const std::string& name, std::uint64_t stamp, Outcome outcome);
  /// Schedules a file that cannot be read now for another attempt.
  void put_off(const std::string& name, int error);
  /// Notes that a file was read or has gone: it needs no further attempt.
  void forget_retries(const std::string& name);
  std::chrono::milliseconds take_due();
  void look_meanwhile() override;

  std::unique_ptr<Watch> watch_;
  std::set<std::string> names_;  // to be looked at
  bool must_scan_ = false;
  std::map<std::string, std::chrono::milliseconds> unreadable_;  // and when they are tried again
  std::atomic<std::uint64_t> pending_count_ = 0;
  mutable std::mutex mutex_;
  std::unique_ptr<DoneFiles> done_;
  std::map<std::string, std::uint64_t> in_flight_;
  std::multimap<std::chrono::steady_clock::time_point, std::string> again_;
};

}  // namespace gpux::daemon
