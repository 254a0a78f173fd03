#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/durability.h"

namespace gpux::test {

/// Records writes, syncs and renames of this process for as long as it lives, in their order, and can make them fail.
/// One at a time.
class RecordedDisk {
 public:
  /// `intervene` sees each call first; what it returns, if not 0, is the error that the call ends with.
  explicit RecordedDisk(DiskObserver intervene = {}) : intervene_(std::move(intervene)) { observe_disk(&observer_); }

  ~RecordedDisk() { observe_disk(nullptr); }

  RecordedDisk(const RecordedDisk&) = delete;
  RecordedDisk& operator=(const RecordedDisk&) = delete;

  void forget() {
    const std::scoped_lock lock(mutex_);
    calls_.clear();
  }

  /// Why the file, which was written beside its place and renamed, may be lost or empty after a loss of power; empty:
  /// it may not.
  [[nodiscard]] std::string risk_of_replaced(const std::filesystem::path& file) const {
    const std::scoped_lock lock(mutex_);
    const auto renamed =
        last([&](const DiskCall& call) { return call.operation == DiskOperation::rename && call.target == file; });
    if (renamed == calls_.end()) return "it was not renamed to its place";
    const auto is_written = [&](const DiskCall& call) {
      return call.operation == DiskOperation::write && (call.path == renamed->path || call.path == file);
    };
    const auto synced_after = [&](auto written, auto end, const std::filesystem::path& path) {
      return std::any_of(written, end, [&](const DiskCall& call) {
        return call.operation == DiskOperation::sync_file_system ||
               (call.operation == DiskOperation::sync_file && call.path == path);
      });
    };
    const auto written = last(is_written);
    if (written == calls_.end()) return "nothing was written to it";
    if (written > renamed) return "it was written to after the rename";
    if (!synced_after(written, renamed, renamed->path)) return "its content was not synced before the rename";
    return names_synced_after(renamed, file.parent_path()) ? "" : "its folder was not synced after the rename";
  }

  /// The same of a file that is appended to.
  [[nodiscard]] std::string risk_of_appended(const std::filesystem::path& file) const {
    const std::scoped_lock lock(mutex_);
    const auto written =
        last([&](const DiskCall& call) { return call.operation == DiskOperation::write && call.path == file; });
    if (written == calls_.end()) return "nothing was written to it";
    const bool synced = std::any_of(written, calls_.end(), [&](const DiskCall& call) {
      return call.operation == DiskOperation::sync_file && call.path == file;
    });
    return synced ? "" : "its content was not synced after the last write";
  }

  /// Whether the names in the folder were synced.
  [[nodiscard]] bool has_synced_names(const std::filesystem::path& folder) const {
    const std::scoped_lock lock(mutex_);
    return names_synced_after(calls_.begin(), folder);
  }

 private:
  using Calls = std::vector<DiskCall>;

  template <typename Predicate>
  Calls::const_iterator last(Predicate predicate) const {
    const auto found = std::find_if(calls_.rbegin(), calls_.rend(), predicate);
    return found == calls_.rend() ? calls_.end() : std::prev(found.base());
  }

  bool names_synced_after(Calls::const_iterator begin, const std::filesystem::path& folder) const {
    return std::any_of(begin, calls_.end(), [&](const DiskCall& call) {
      return call.operation == DiskOperation::sync_folder && call.path == folder;
    });
  }

  int record(const DiskCall& call) {
    const int error = intervene_ ? intervene_(call) : 0;
    const std::scoped_lock lock(mutex_);
    if (error == 0) calls_.push_back(call);
    return error;
  }

  DiskObserver intervene_;
  mutable std::mutex mutex_;
  Calls calls_;
  const DiskObserver observer_ = [this](const DiskCall& call) { return record(call); };
};

}  // namespace gpux::test
