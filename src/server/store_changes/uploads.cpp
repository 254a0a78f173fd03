#include "server/store_changes/uploads.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/memory_size.h"
#include "base/sha256.h"
#include "base/storage_error.h"
#include "gpux/error.h"
#include "library/pull_source.h"

namespace gpux::server {

namespace fs = std::filesystem;

void Uploads::keep(const std::string& digest, std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  if (const std::string found = hash.hex(); found != digest) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("the body has the digest sha256:{}, and not sha256:{}", found, digest));
  }
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  Kept& kept = kept_[digest];
  kept.last_use = now;
  if (kept.bytes == bytes.size() && place_ && fs::exists(place_->folder.path() / digest)) return;
  kept.bytes = 0;
  try {
    if (kept_.size() > options_.max_files || sum() + bytes.size() > options_.max_bytes) {
      throw Error(
          ErrorCode::resource_exhausted,
          fmt::format("the server keeps {} files of {} for models that are to be created, and takes up to {} "
                      "of {}: each goes {} minutes after its last use",
                      kept_.size() - 1, format_bytes(sum()), options_.max_files, format_bytes(options_.max_bytes),
                      std::chrono::duration_cast<std::chrono::minutes>(options_.time_to_live).count()));
    }
    if (!place_) place_ = std::make_unique<Place>(options_.home);
    // The file, and the package that is made of it.
    require_space(place_->folder.path(), 2 * bytes.size(), "the body");
    write_file_atomically(place_->folder.path() / digest, bytes);
  } catch (...) {
    kept_.erase(digest);
    throw;
  }
  kept.bytes = bytes.size();
  at_(now + options_.time_to_live, [this] { remove_old(); });
}

bool Uploads::has(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(digest);
  if (found == kept_.end()) return false;
  found->second.last_use = Clock::now();
  return true;
}

void Uploads::lay_out(const std::string& digest, const fs::path& place) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(digest);
  if (found == kept_.end() || !link_in_place(place_->folder.path() / digest, place)) {
    throw Error(ErrorCode::not_found,
                fmt::format("no file sha256:{} is kept; POST /api/blobs/sha256:{} sends it", digest, digest));
  }
  found->second.last_use = Clock::now();
}

std::uint64_t Uploads::sum() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& [digest, kept] : kept_) bytes += kept.bytes;
  return bytes;
}

std::uint64_t Uploads::bytes() const {
  const std::lock_guard lock(mutex_);
  return sum();
}

void Uploads::remove_old() {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  Clock::time_point next = Clock::time_point::max();
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    const Clock::time_point end = kept->second.last_use + options_.time_to_live;
    if (end > now) {
      next = std::min(next, end);
      ++kept;
      continue;
    }
    std::error_code error;
    fs::remove(place_->folder.path() / kept->first, error);
    kept = kept_.erase(kept);
  }
  if (kept_.empty()) {
    place_.reset();
  } else {
    at_(next, [this] { remove_old(); });
  }
}

}  // namespace gpux::server
