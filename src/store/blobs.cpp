#include "store/blobs.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/durability.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/sha256.h"
#include "base/storage_error.h"
#include "gpux/error.h"

namespace gpux {
namespace {

constexpr std::uint64_t limit_text_bytes = std::uint64_t{4} << 20;

/// A blob that is being written.
class NewBlob {
 public:
  explicit NewBlob(const std::filesystem::path& scratch) : file_(scratch / "blob") {}

  void append(std::span<const std::byte> bytes) {
    hash_.update(bytes);
    file_.append(bytes);
  }

  Blob keep_in(const std::filesystem::path& folder) {
    Blob blob{hash_.hex(), file_.size()};
    std::error_code error;
    std::filesystem::permissions(file_.part(), std::filesystem::perms(0444), error);
    require_stored(error, "write", file_.part());
    file_.commit_as(folder / blob.digest);
    return blob;
  }

 private:
  FileReplacement file_;
  Sha256 hash_;
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
  NewBlob added(scratch_);
  std::ifstream stream(file, std::ios::binary);
  std::vector<char> piece(std::size_t{1} << 20);
  do {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    added.append(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(stream.gcount()))));
  } while (stream);
  if (!stream.eof()) throw_storage_error("read", file, EIO);
  return added.keep_in(folder_);
}

Blob BlobFolder::add_text(std::string_view text) const {
  Blob blob{sha256_of(text), text.size()};
  if (damage(blob).empty()) return blob;
  NewBlob added(scratch_);
  added.append(std::as_bytes(std::span(text)));
  return added.keep_in(folder_);
}

std::string BlobFolder::read_text(const std::string& digest) const {
  const std::filesystem::path path = path_of(digest);
  std::string text;
  try {
    text = read_file(path, limit_text_bytes);
  } catch (const Error& error) {
    throw error.as(ErrorCode::storage);
  }
  if (sha256_of(text) != digest) {
    throw Error(ErrorCode::storage,
                format_message("'{}' is damaged: its content is not what its name says", file_at(path)));
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
