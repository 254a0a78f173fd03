#include "store/blobs.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <span>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durability.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/storage_error.h"
#include "base/write_fully.h"
#include "gpux/error.h"

namespace gpux {
namespace {

constexpr std::uint64_t limit_text_bytes = std::uint64_t{4} << 20;

/// A new file under a name nobody else has, that goes away unless it is kept.
class ScratchFile {
 public:
  explicit ScratchFile(const std::filesystem::path& folder) : path_((folder / "blob-XXXXXX").string()) {
    descriptor_ = ::mkostemp(path_.data(), O_CLOEXEC);
    if (descriptor_ < 0) throw_storage_error("write to", folder, errno);
  }

  ~ScratchFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    hash_.update(bytes);
    if (const int error = write_fully(descriptor_, bytes, bytes_); error != 0)
      throw_storage_error("write", path_, error);
    bytes_ += bytes.size();
  }

  Blob keep_in(const std::filesystem::path& folder) {
    Blob blob{hash_.hex(), bytes_};
    if (::fchmod(descriptor_, 0444) != 0) throw_storage_error("write", path_, errno);
    if (const int error = sync_file(descriptor_); error != 0) throw_storage_error("write", path_, error);
    if (::close(std::exchange(descriptor_, -1)) != 0) throw_storage_error("write", path_, errno);
    const std::filesystem::path kept = folder / blob.digest;
    if (const int error = rename_file(path_, kept); error != 0) throw_storage_error("write", kept, error);
    path_.clear();
    return blob;
  }

 private:
  std::string path_;
  int descriptor_ = -1;
  Sha256 hash_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

BlobFolder::BlobFolder(std::filesystem::path folder, std::filesystem::path scratch)
    : folder_(std::move(folder)), scratch_(std::move(scratch)) {}

bool BlobFolder::has_whole(const Blob& blob) const {
  struct stat status {};

  return ::lstat(path_of(blob.digest).c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         static_cast<std::uint64_t>(status.st_size) == blob.bytes;
}

Blob BlobFolder::add_file(const std::filesystem::path& file) const {
  // Mapped only to be refused with the right words: the content is read, since a file that shrinks meanwhile would
  // kill whoever touches its mapping.
  const std::size_t size = MappedFile(file).bytes().size();
  if (const Blob blob{sha256_of_file(file), size}; damage(blob).empty()) return blob;
  ScratchFile scratch(scratch_);
  std::ifstream stream(file, std::ios::binary);
  std::vector<char> piece(std::size_t{1} << 20);
  do {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    scratch.write(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(stream.gcount()))));
  } while (stream);
  if (!stream.eof()) throw_storage_error("read", file, EIO);
  return scratch.keep_in(folder_);
}

Blob BlobFolder::add_text(std::string_view text) const {
  Blob blob{sha256_of(text), text.size()};
  if (damage(blob).empty()) return blob;
  ScratchFile scratch(scratch_);
  scratch.write(std::as_bytes(std::span(text)));
  return scratch.keep_in(folder_);
}

std::string BlobFolder::read_text(const std::string& digest) const {
  const std::filesystem::path path = path_of(digest);
  std::string text;
  try {
    text = read_file(path, limit_text_bytes);
  } catch (const Error& error) {
    throw Error(ErrorCode::storage, error.message());
  }
  if (sha256_of(text) != digest) {
    throw Error(ErrorCode::storage,
                fmt::format("'{}' is damaged: its content is not what its name says", path.string()));
  }
  return text;
}

std::string BlobFolder::damage(const Blob& blob) const {
  if (!has_whole(blob)) return "is missing or cut";
  try {
    return sha256_of_file(path_of(blob.digest)) == blob.digest ? "" : "has changed";
  } catch (const Error& error) {
    return fmt::format("cannot be read ({})", error.message());
  }
}

void BlobFolder::flush() const {
  if (const int error = sync_folder(folder_); error != 0) throw_storage_error("flush", folder_, error);
}

bool is_digest(std::string_view text) noexcept {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace gpux
