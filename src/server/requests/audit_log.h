#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "gpux/error.h"
#include "server/requests/caller.h"
#include "server/requests/request_limits.h"
#include "server/requests/request_work.h"

namespace gpux::server {

/// A change that somebody asked for, and what became of it.
struct AuditEntry {
  std::string action;  ///< "load", "unload", "pull", "push", "create", "copy", "delete", "upload"
  std::string model;   ///< as the request names it
  std::string target;  ///< of a copy: the new name; else empty
  std::string digest;  ///< of the model; empty where it is not known
  Caller caller;
  std::string result;  ///< "succeeded", "failed", "unfinished" at its deadline, "refused", "cancelled"
  std::string reason;  ///< where it did not succeed
};

/// What a text of an entry has at most, in bytes: clients choose names, and errors repeat them.
inline constexpr std::size_t max_audit_text_bytes = 300;

/// The entry as an object of JSON in one line, without its end. Its texts are cut to max_audit_text_bytes.
std::string audit_line(const AuditEntry& entry, std::string_view time);

struct AuditCounts {
  std::uint64_t written = 0, failed = 0;
};

/// Who changed which models: a line of JSON for each change, in a file or in the log. All members from any thread.
class AuditLog {
 public:
  /// Entries are lines of the log.
  AuditLog() = default;

  /// Appends to the file, which only its owner may read if it is made here. Errors storage, permission.
  explicit AuditLog(std::filesystem::path file);

  /// Before a change. Error storage where the last line could not be written and another try fails, too: nothing is
  /// changed that would not be on record.
  void require_writable();

  /// Error storage where the line cannot be written. Lines that are written have reached the system, and not
  /// necessarily the disk.
  void write(const AuditEntry& entry);

  /// An entry of what was refused, whose result is that. No error where it cannot be written, and only so many in a
  /// minute: clients may be refused again and again.
  void write_refused(AuditEntry entry);

  /// Opens the file of that name again, after somebody has renamed it. False where that fails: the one that was open
  /// is kept, and the log says why.
  bool reopen();

  [[nodiscard]] AuditCounts counts() const;

 private:
  void append(std::string line);

  std::filesystem::path file_;  // empty: the log
  mutable std::mutex mutex_;
  UniqueFd descriptor_;
  AuditCounts counts_;
  std::uint64_t missing_ = 0;  // lines since the last one that was written
  Bucket refused_;
  bool is_cut_ = false;  // the file ends in the middle of a line
};

/// A change under way. Without an end it was cancelled.
class AuditedChange {
 public:
  /// Errors of AuditLog::require_writable(). `entry` lacks its result.
  AuditedChange(std::shared_ptr<AuditLog> log, AuditEntry entry);
  ~AuditedChange();
  AuditedChange(const AuditedChange&) = delete;
  AuditedChange& operator=(const AuditedChange&) = delete;

  /// Writes what became of it, before the answer. Returns the error for the client: `error`, or that the line could not
  /// be written. Only the first call writes. Any thread.
  std::optional<Error> end(const std::optional<Error>& error, std::string digest = {});

 private:
  const std::shared_ptr<AuditLog> log_;
  std::mutex mutex_;
  AuditEntry entry_;
  bool has_ended_ = false;
};

/// Does the work, which ends the change later. What it throws ends it now.
template <typename Work>
void audited(AuditedChange& change, const Work& work) {
  try {
    work();
  } catch (...) {
    (void)change.end(current_error());
    throw;
  }
}

}  // namespace gpux::server
