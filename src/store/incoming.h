#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/file_lock.h"
#include "base/files.h"
#include "base/sha256.h"
#include "store/blobs.h"
#include "store/download_folder.h"

namespace gpux {

/// A blob that is being received, in pieces and in several attempts: what has arrived stays in a part, also if the
/// process is killed, and the next attempt continues behind it. From one thread at a time.
class IncomingBlob {
 public:
  /// Waits while another receives it, and calls `while_waiting` meanwhile, as FileLock::exclusive() does.
  IncomingBlob(const std::filesystem::path& folder, Blob blob, const std::function<void()>& while_waiting);

  /// Bytes that are here already. Never more than the blob has.
  [[nodiscard]] std::uint64_t received() const noexcept { return part_ ? part_->size() : blob_.bytes; }

  /// The next bytes, no more than are missing. Errors storage; usage for more bytes.
  void append(std::span<const std::byte> bytes);

  /// Forgets what has arrived.
  void restart();

  /// After the last byte: keeps the blob if it has the digest. Otherwise false, and nothing has arrived.
  [[nodiscard]] bool finish();

  /// Whether another process has finished it meanwhile.
  [[nodiscard]] bool is_finished() const noexcept { return !part_; }

 private:
  std::filesystem::path folder_;
  Blob blob_;
  FileLock lock_;
  std::unique_ptr<FileReplacement> part_;
  Sha256 hash_;
};

/// Where blobs arrive that belong to a package which is not complete yet: the folder downloads/blobs of a store. Any
/// number of processes and threads may receive different blobs at a time; of one blob the second waits for the first.
/// While the object lives, prune() leaves the folder alone. Errors storage.
class IncomingBlobs {
 public:
  /// `root` is the store's folder.
  explicit IncomingBlobs(const std::filesystem::path& root);

  /// Whether the blob has arrived. Reads all of it.
  [[nodiscard]] bool has(const Blob& blob) const;

  /// Bytes of the blob that have arrived, all or a part of them.
  [[nodiscard]] std::uint64_t received(const Blob& blob) const;

  /// Begins to receive the blob, or resumes it: IncomingBlob's constructor.
  [[nodiscard]] IncomingBlob receive(
      const Blob& blob, const std::function<void()>& while_waiting = [] {}) const {
    return {folder_, blob, while_waiting};
  }

  [[nodiscard]] std::filesystem::path path_of(const std::string& digest) const { return folder_ / digest; }

 private:
  DownloadFolder downloads_;
  std::filesystem::path folder_;
};

}  // namespace gpux
