#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
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

  /// Bytes that are kept now.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  struct Kept {
    std::uint64_t bytes = 0;
    Clock::time_point last_use;
  };

  /// The folder that keeps them, while there is one.
  struct Place {
    explicit Place(const std::filesystem::path& home) : downloads(home), folder(downloads.path() / "uploads") {}

    DownloadFolder downloads;  ///< keeps `gpux prune` away
    ScratchFolder folder;
  };

  void remove_old();
  [[nodiscard]] std::uint64_t sum() const noexcept;

  const UploadOptions options_;
  const At at_;
  mutable std::mutex mutex_;
  std::unique_ptr<Place> place_;  ///< null: nothing is kept
  std::map<std::string, Kept> kept_;
};

}  // namespace gpux::server
