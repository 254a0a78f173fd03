#include "registry/download/partial_file.h"

#include <utility>

#include <fmt/format.h>

#include "base/durability.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/storage_error.h"
#include "gpux/error.h"

namespace gpux::registry {
namespace {

namespace fs = std::filesystem;

std::optional<DownloadRecord> read_record(const fs::path& path) {
  constexpr std::uint64_t limit_bytes = std::uint64_t{4} << 20;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  try {
    return decode_download_record(read_file(path, limit_bytes));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

PartialFile::PartialFile(const fs::path& folder, const std::string& key, std::optional<std::uint64_t> bytes,
                         std::string etag, const std::function<void()>& while_waiting)
    : complete_(folder / key),
      part_(folder / (key + ".part")),
      record_path_(folder / (key + ".ranges")),
      lock_(FileLock::exclusive(folder / (key + ".lock"), while_waiting)),
      is_resumable_(bytes.has_value()),
      saved_(std::chrono::steady_clock::now()) {
  std::error_code error;
  const bool has_complete = fs::is_regular_file(fs::symlink_status(complete_, error));
  if (has_complete && (!bytes || fs::file_size(complete_, error) == *bytes)) return;
  file_.emplace(part_);
  record_.bytes = bytes.value_or(0);
  record_.etag = std::move(etag);
  std::optional<DownloadRecord> known = read_record(record_path_);
  const bool fits = known && is_resumable_ && known->bytes == record_.bytes &&
                    (record_.etag.empty() || known->etag == record_.etag) &&
                    fs::file_size(part_, error) == record_.bytes;
  if (fits) {
    record_ = *std::move(known);
    return;
  }
  discard();
}

std::vector<Span> PartialFile::missing() const {
  const std::lock_guard lock(mutex_);
  return record_.ranges.missing(record_.bytes);
}

std::uint64_t PartialFile::present_bytes() const {
  const std::lock_guard lock(mutex_);
  return record_.ranges.total();
}

void PartialFile::write(std::uint64_t position, std::span<const std::byte> content) {
  part().write(position, content);
  {
    const std::lock_guard lock(mutex_);
    record_.ranges.add({position, position + content.size()});
  }
  save_if_due();
}

PositionedFile& PartialFile::part() {
  if (!file_) throw Error(ErrorCode::internal, format_message("{} is complete already", file_at(complete_)));
  return *file_;
}

void PartialFile::save_if_due() {
  constexpr std::chrono::milliseconds interval{1000};
  {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (!is_resumable_ || is_saving_ || now - saved_ < interval) return;
    is_saving_ = true;
    saved_ = now;
  }

  // One thread saves while the others write on.
  struct Saving {
    PartialFile& file;

    ~Saving() {
      const std::lock_guard lock(file.mutex_);
      file.is_saving_ = false;
    }
  } const saving{*this};

  save();
}

void PartialFile::save() {
  if (!is_resumable_ || is_complete()) return;
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = encode(record_);
  }
  // Bytes that the record promises are on the disk before it.
  part().sync();
  write_file_atomically(record_path_, text);
}

void PartialFile::discard() {
  {
    const std::lock_guard lock(mutex_);
    record_.ranges = {};
  }
  std::error_code error;
  fs::remove(record_path_, error);
  if (!file_) {
    fs::remove(complete_, error);
    file_.emplace(part_);
  }
  part().resize(0);
  if (is_resumable_) part().resize(record_.bytes);
}

void PartialFile::finish() {
  part().sync();
  if (const int error = rename_file(part_, complete_); error != 0) throw_storage_error("rename", part_, error);
  std::error_code error;
  fs::remove(record_path_, error);
  file_.reset();
}

}  // namespace gpux::registry
