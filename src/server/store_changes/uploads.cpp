#include "server/store_changes/uploads.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/failure_of.h"
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
  const std::optional<fs::path> folder = reserve(digest, bytes.size());
  if (!folder) return;
  try {
    // The file, and the package that is made of it.
    require_space(*folder, 2 * bytes.size(), "the body");
    write_file_atomically(*folder / digest, bytes);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    release(digest);
    throw;
  }
  const std::lock_guard lock(mutex_);
  Kept& kept = kept_.at(digest);
  if (!std::exchange(kept.is_there, true)) bytes_ += kept.bytes;
  release(digest);
  call_later(kept.last_use + options_.time_to_live);
}

// Takes room for a file, and the folder that it belongs into; empty where it is kept already.
std::optional<fs::path> Uploads::reserve(const std::string& digest, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto found = kept_.find(digest);
  if (found != kept_.end() && found->second.is_there) {
    found->second.last_use = Clock::now();
    if (fs::exists(place_->folder.path() / digest)) return std::nullopt;
    found->second.is_there = false;
    bytes_ -= found->second.bytes;
  }
  if (found == kept_.end()) {
    const std::uint64_t sum = reserved_bytes();
    if (kept_.size() >= options_.max_files || bytes > options_.max_bytes || sum > options_.max_bytes - bytes) {
      throw Error(ErrorCode::resource_exhausted,
                  fmt::format("the server keeps {} files of {} for models that are to be created, and takes up to {} "
                              "of {}: each goes {} minutes after its last use",
                              kept_.size(), format_bytes(sum), options_.max_files, format_bytes(options_.max_bytes),
                              std::chrono::duration_cast<std::chrono::minutes>(options_.time_to_live).count()));
    }
    if (!place_) place_ = std::make_unique<Place>(options_.home);
    found = kept_.emplace(digest, Kept{.bytes = bytes}).first;
  }
  ++found->second.users;
  return place_->folder.path();
}

// Of one who has reserved it, or uses it; with the lock.
void Uploads::release(const std::string& digest) {
  const auto found = kept_.find(digest);
  found->second.last_use = Clock::now();
  if (--found->second.users != 0 || found->second.is_there) return;
  kept_.erase(found);
  if (kept_.empty()) place_.reset();
}

bool Uploads::has(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(digest);
  if (found == kept_.end() || !found->second.is_there) return false;
  found->second.last_use = Clock::now();
  return true;
}

void Uploads::lay_out(const std::string& digest, const fs::path& place) {
  const auto missing = [&] {
    return Error(ErrorCode::not_found,
                 fmt::format("no file sha256:{} is kept; POST /api/blobs/sha256:{} sends it", digest, digest));
  };
  fs::path file;
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(digest);
    if (found == kept_.end() || !found->second.is_there) throw missing();
    ++found->second.users;
    file = place_->folder.path() / digest;
  }
  bool is_linked = false;
  const std::optional<Error> failure = failure_of([&] { is_linked = link_in_place(file, place); });
  {
    const std::lock_guard lock(mutex_);
    release(digest);
  }
  if (failure) throw Error(*failure);
  if (!is_linked) throw missing();
}

std::uint64_t Uploads::reserved_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& [digest, kept] : kept_) bytes += kept.bytes;
  return bytes;
}

// One call at a time waits, for the oldest file.
void Uploads::call_later(Clock::time_point time) {
  if (std::exchange(is_called_later_, true)) return;
  at_(time, [this] { remove_old(); });
}

void Uploads::remove_old() {
  const std::lock_guard lock(mutex_);
  is_called_later_ = false;
  const Clock::time_point now = Clock::now();
  Clock::time_point next = Clock::time_point::max();
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    const bool is_used = kept->second.users != 0;
    const Clock::time_point end = (is_used ? now : kept->second.last_use) + options_.time_to_live;
    if (is_used || end > now) {
      next = std::min(next, end);
      ++kept;
      continue;
    }
    std::error_code error;
    fs::remove(place_->folder.path() / kept->first, error);
    bytes_ -= kept->second.bytes;
    kept = kept_.erase(kept);
  }
  if (kept_.empty()) {
    place_.reset();
  } else {
    call_later(next);
  }
}

}  // namespace gpux::server
