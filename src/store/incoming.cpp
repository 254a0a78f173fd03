#include "store/incoming.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>
#include <vector>

#include "base/durability.h"
#include "base/storage_error.h"
#include "gpux/error.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

fs::path made(fs::path folder) {
  require_stored(make_folders(folder), "make the folder", folder);
  return folder;
}

std::uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  return error ? 0 : size;
}

bool holds(const fs::path& file, const Blob& blob) {
  std::error_code error;
  return fs::is_regular_file(file, error) && size_of(file) == blob.bytes && sha256_of_file(file) == blob.digest;
}

}  // namespace

IncomingBlob::IncomingBlob(const fs::path& folder, Blob blob, const std::function<void()>& while_waiting)
    : folder_(folder),
      blob_(std::move(blob)),
      lock_(FileLock::exclusive(folder / (blob_.digest + ".lock"), while_waiting)) {
  if (holds(folder_ / blob_.digest, blob_)) return;
  part_ = std::make_unique<FileReplacement>(folder_ / blob_.digest, FileReplacement::Uncommitted::kept);
  if (part_->size() > blob_.bytes) part_->cut(0);
  std::ifstream stream(part_->part(), std::ios::binary);
  std::vector<char> piece(std::size_t{1} << 20);
  std::uint64_t read = 0;
  while (stream && read < part_->size()) {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const auto count = static_cast<std::size_t>(stream.gcount());
    hash_.update(std::as_bytes(std::span(piece).first(count)));
    read += count;
  }
  if (read != part_->size()) throw_storage_error("read", part_->part(), EIO);
}

void IncomingBlob::append(std::span<const std::byte> bytes) {
  if (!part_ || bytes.size() > blob_.bytes - part_->size()) {
    throw Error(ErrorCode::usage, "sha256:" + blob_.digest + " is longer than it is said to be");
  }
  part_->append(bytes);
  hash_.update(bytes);
}

void IncomingBlob::restart() {
  if (!part_) return;
  part_->cut(0);
  hash_ = Sha256();
}

bool IncomingBlob::finish() {
  if (!part_) return true;
  if (part_->size() != blob_.bytes || hash_.hex() != blob_.digest) {
    restart();
    return false;
  }
  std::error_code error;
  fs::permissions(part_->part(), fs::perms(0444), error);
  require_stored(error, "write", part_->part());
  part_->commit();
  part_ = nullptr;
  return true;
}

IncomingBlobs::IncomingBlobs(const fs::path& root) : downloads_(root), folder_(made(downloads_.path() / "blobs")) {}

bool IncomingBlobs::has(const Blob& blob) const {
  return holds(path_of(blob.digest), blob);
}

std::uint64_t IncomingBlobs::received(const Blob& blob) const {
  const std::uint64_t whole = size_of(path_of(blob.digest));
  if (whole == blob.bytes) return whole;
  return std::min(size_of(fs::path(path_of(blob.digest).string() + ".part")), blob.bytes);
}

}  // namespace gpux
