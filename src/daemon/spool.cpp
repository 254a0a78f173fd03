#include "daemon/spool.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durability.h"
#include "base/files.h"
#include "base/write_fully.h"

namespace gpux::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t max_file_bytes = std::uint64_t{64} << 20;
}  // namespace

Spool::Spool(fs::path folder, std::uint64_t number) : folder_(std::move(folder)) {
  if (const std::error_code error = make_folders(folder_)) throw_file_error("make the folder", folder_, error.value());
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    std::uint64_t found = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), found);
    if (failure == std::errc() && std::string_view(end) == ".jsonl") sizes_[found] = entry.file_size();
  }
  open(sizes_.empty() ? number : sizes_.rbegin()->first);
}

fs::path Spool::file(std::uint64_t number) const {
  return folder_ / fmt::format("{}.jsonl", number);
}

void Spool::open(std::uint64_t number) {
  const fs::path path = file(number);
  UniqueFd opened(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!opened) throw_file_error("open", path, errno);
  const std::string content = read_file(path, std::uint64_t{1} << 40);
  // A line without its end was never accepted.
  const std::uint64_t size = content.find_last_of('\n') + 1;
  if (size != content.size() && ::ftruncate(opened.get(), static_cast<off_t>(size)) != 0) {
    throw_file_error("cut off", path, errno);
  }
  if (const int error = sync_folder(folder_); error != 0) throw_file_error("write to", folder_, error);
  descriptor_ = std::move(opened);
  sizes_[number] = size;
}

std::vector<Spool::Place> Spool::append(std::span<const std::string_view> lines) {
  const std::scoped_lock lock(mutex_);
  if (sizes_.rbegin()->second >= max_file_bytes) open(sizes_.rbegin()->first + 1);
  auto& [number, size] = *sizes_.rbegin();
  std::string content;
  std::vector<Place> places;
  for (const std::string_view line : lines) {
    places.push_back({number, size + content.size()});
    content += line;
    content += '\n';
  }
  int error = write_fully(descriptor_.get(), std::as_bytes(std::span(content)), size);
  if (error == 0) error = sync_file(descriptor_.get());
  if (error != 0) {
    [[maybe_unused]] const int ignored = ::ftruncate(descriptor_.get(), static_cast<off_t>(size));
    throw_file_error("write", file(number), error);
  }
  size += content.size();
  return places;
}

std::uint64_t Spool::first() const {
  const std::scoped_lock lock(mutex_);
  return sizes_.begin()->first;
}

std::uint64_t Spool::last() const {
  const std::scoped_lock lock(mutex_);
  return sizes_.rbegin()->first;
}

std::uint64_t Spool::size(std::uint64_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto found = sizes_.find(number);
  return found == sizes_.end() ? 0 : found->second;
}

std::uint64_t Spool::bytes_from(std::uint64_t number, std::uint64_t offset) const {
  const std::scoped_lock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [one, size] : sizes_) {
    if (one > number) bytes += size;
    if (one == number) bytes += size - std::min(size, offset);
  }
  return bytes;
}

void Spool::begin_another() {
  const std::scoped_lock lock(mutex_);
  open(sizes_.rbegin()->first + 1);
}

void Spool::remove(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  std::error_code ignored;
  fs::remove(file(number), ignored);
  sizes_.erase(number);
}

}  // namespace gpux::daemon
