#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/file_lock.h"
#include "base/positioned_file.h"
#include "registry/download/range_set.h"

namespace gpux::registry {

/// A file that is downloaded in pieces: FOLDER/KEY when it is complete; until then KEY.part, with KEY.ranges, the
/// record of the bytes that it has. The next one with the same key resumes it, also after a kill or a loss of power.
/// One process at a time: others wait, and call `while_waiting` meanwhile, as FileLock::exclusive() does.
class PartialFile {
 public:
  /// `bytes`: of the whole; empty: unknown, then nothing is resumed. `etag` must match the record's; empty: any.
  /// Errors storage, permission.
  PartialFile(const std::filesystem::path& folder, const std::string& key, std::optional<std::uint64_t> bytes,
              std::string etag, const std::function<void()>& while_waiting);

  [[nodiscard]] const std::filesystem::path& complete_path() const noexcept { return complete_; }

  [[nodiscard]] std::filesystem::path part_path() const { return part_; }

  /// Whether KEY exists, which this constructor does not check the content of.
  [[nodiscard]] bool is_complete() const noexcept { return !file_; }

  [[nodiscard]] std::vector<Span> missing() const;
  [[nodiscard]] std::uint64_t present_bytes() const;

  /// Writes `content` at `position`. Called from any thread. Error storage.
  void write(std::uint64_t position, std::span<const std::byte> content);
  /// Records the bytes written so far, so that they are not downloaded again. Error storage.
  void save();
  /// Forgets all that is there, and begins again.
  void discard();
  /// All bytes are there and right: KEY.part becomes KEY. Error storage.
  void finish();

 private:
  PositionedFile& part();
  void save_if_due();

  std::filesystem::path complete_, part_, record_path_;
  FileLock lock_;
  std::optional<PositionedFile> file_;
  mutable std::mutex mutex_;  // of the record
  DownloadRecord record_;
  bool is_resumable_;
  bool is_saving_ = false;
  std::chrono::steady_clock::time_point saved_;
};

}  // namespace gpux::registry
