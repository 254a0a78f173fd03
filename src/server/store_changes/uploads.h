#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/scratch_folder.h"
#include "store/download_folder.h"

namespace gpux::server {

struct UploadOptions {
  std::filesystem::path home;                         ///< of the store
  std::uint64_t max_bytes = std::uint64_t{64} << 30;  ///< of all that are kept
  std::size_t max_files = 256;
  std::chrono::milliseconds time_to_live{std::chrono::hours(1)};  ///< since they were last asked for
};

/// Files that clients have sent, by their SHA-256, until a model is made of them: in a folder of the store's downloads,
/// which goes with the object. All members from any thread.
class Uploads {
 public:
  using Clock = std::chrono::steady_clock;
  /// Calls it at that time, on any thread.
  using At = std::function<void(Clock::time_point, std::function<void()>)>;

  Uploads(UploadOptions options, At at) : options_(std::move(options)), at_(std::move(at)) {}

  /// Keeps the bytes as `digest`, 64 hexadecimal digits. Errors invalid_input where they have another SHA-256,
  /// resource_exhausted where too much is kept, storage (also too little space).
  void keep(const std::string& digest, std::span<const std::byte> bytes);

  /// Whether it is kept; if so, it begins its time anew.
  [[nodiscard]] bool has(const std::string& digest);

  /// Makes `place` another name of the file. Errors not_found where it is not kept, storage.
  void lay_out(const std::string& digest, const std::filesystem::path& place);

  /// Bytes that are kept now. Waits for nobody.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  struct Kept {
    std::uint64_t bytes = 0;  ///< taken from the limit, also while it is written
    Clock::time_point last_use = {};
    std::size_t users = 0;  ///< write it or link it at the moment, without the lock: it stays
    bool is_there = false;  ///< it is written
  };

  /// The folder that keeps them, while there is one.
  struct Place {
    explicit Place(const std::filesystem::path& home) : downloads(home), folder(downloads.path() / "uploads") {}

    DownloadFolder downloads;  ///< keeps `gpux prune` away
    ScratchFolder folder;
  };

  [[nodiscard]] std::optional<std::filesystem::path> reserve(const std::string& digest, std::uint64_t bytes);
  void release(const std::string& digest);
  void call_later(Clock::time_point time);
  void remove_old();
  [[nodiscard]] std::uint64_t reserved_bytes() const noexcept;

  const UploadOptions options_;
  const At at_;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::mutex mutex_;              // not held while a file is written
  bool is_called_later_ = false;  // remove_old() is to be called
  std::unique_ptr<Place> place_;  ///< null: nothing is kept
  std::map<std::string, Kept> kept_;
};

}  // namespace gpux::server
