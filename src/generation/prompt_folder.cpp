#include "generation/prompt_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/durability.h"
#include "base/format_message.h"
#include "base/storage_error.h"
#include "base/write_fully.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t identity_digits = 16, content_digits = 32, secret_bytes = 32;
constexpr std::string_view suffix = ".prompt", part_mark = ".part-", secret_name = "secret";

bool is_hexadecimal(std::string_view text) noexcept {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// IDENTITY-CONTENT.prompt
bool is_prompt_name(std::string_view name) noexcept {
  return name.size() == identity_digits + 1 + content_digits + suffix.size() && name.ends_with(suffix) &&
         name[identity_digits] == '-' && is_hexadecimal(name.substr(0, identity_digits)) &&
         is_hexadecimal(name.substr(identity_digits + 1, content_digits));
}

bool is_part_name(std::string_view name) noexcept {
  const std::size_t mark = name.find(part_mark);
  return mark != std::string_view::npos &&
         (is_prompt_name(name.substr(0, mark)) || name.substr(0, mark) == secret_name);
}

[[noreturn]] void refuse(const fs::path& folder, std::string_view reason) {
  throw Error(ErrorCode::usage, format_message("{} is '{}', which {}; accepted: a folder of this user that no other "
                                               "may write to, or one that does not exist yet",
                                               setting_named("prompt_cache"), folder.string(), reason));
}

// The last name of "folder/" would be empty, and a link be followed.
fs::path without_last_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

UniqueFd open_own_folder(const fs::path& folder) {
  if (const std::error_code error = make_folders(folder.parent_path())) {
    throw_storage_error("make the folder", folder.parent_path(), error.value());
  }
  constexpr mode_t own = 0700;
  if (::mkdir(folder.c_str(), own) != 0 && errno != EEXIST) throw_storage_error("make the folder", folder, errno);
  UniqueFd descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!descriptor) {
    const int error = errno;
    if (error == ELOOP || error == ENOTDIR) refuse(folder, "is a link or no folder");
    throw_storage_error("open the folder", folder, error);
  }

  struct stat status {};

  if (::fstat(descriptor.get(), &status) != 0) throw_storage_error("open the folder", folder, errno);
  if (status.st_uid != ::geteuid()) refuse(folder, "belongs to another user");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) refuse(folder, "others may write to");
  return descriptor;
}

std::int64_t nanoseconds_of(const timespec& time) noexcept {
  constexpr std::int64_t per_second = 1'000'000'000;
  return time.tv_sec * per_second + time.tv_nsec;
}

bool is_own_file(const struct stat& status) noexcept {
  return S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

std::optional<std::string> read_secret(const PromptFolder::OpenFile& file) {
  if (!file.descriptor || file.bytes != secret_bytes) return std::nullopt;
  std::string secret(secret_bytes, '\0');
  if (::pread(file.descriptor.get(), secret.data(), secret_bytes, 0) != static_cast<ssize_t>(secret_bytes)) {
    return std::nullopt;
  }
  return secret;
}

}  // namespace

std::string prompt_file_name(std::string_view identity, std::string_view content) {
  std::string name(identity.substr(0, identity_digits));
  name += '-';
  name += content.substr(0, content_digits);
  return name += suffix;
}

bool is_name_of(std::string_view name, std::string_view identity) noexcept {
  return name.starts_with(identity.substr(0, identity_digits));
}

PromptFolder::PromptFolder(fs::path path)
    : path_(without_last_slash(fs::absolute(path).lexically_normal())), folder_(open_own_folder(path_)) {
  remove_abandoned();
}

std::vector<std::string> PromptFolder::names() const {
  std::vector<std::string> names;
  // A description of its own: the position in the folder is that of one reader.
  const int again = ::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(again < 0 ? nullptr : ::fdopendir(again), ::closedir);
  if (folder == nullptr) return names;
  while (const dirent* entry = ::readdir(folder.get())) names.emplace_back(entry->d_name);
  return names;
}

// Who writes a part has its lock.
void PromptFolder::remove_abandoned() const {
  for (const std::string& name : names()) {
    if (!is_part_name(name)) continue;
    const OpenFile part = open(name);
    if (part.descriptor && ::flock(part.descriptor.get(), LOCK_EX | LOCK_NB) == 0) remove(name);
  }
}

std::string PromptFolder::secret() const {
  const std::string name(secret_name);
  if (std::optional<std::string> known = read_secret(open(name))) return *std::move(known);
  std::array<std::byte, secret_bytes> made{};
  if (::getrandom(made.data(), made.size(), 0) != static_cast<ssize_t>(made.size())) {
    throw_storage_error("write", path_ / name, errno);
  }
  const std::array<std::span<const std::byte>, 1> parts{made};
  write(name, parts, {});
  // Another process may have written its own meanwhile: that of the last one counts, and files of the other are not
  // found.
  std::optional<std::string> written = read_secret(open(name));
  if (!written) throw_storage_error("read", path_ / name, EIO);
  return *std::move(written);
}

std::vector<KeptFile> PromptFolder::files() const {
  std::vector<KeptFile> files;
  for (std::string& name : names()) {
    if (!is_prompt_name(name)) continue;

    struct stat status {};

    if (::fstatat(folder_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || !is_own_file(status)) continue;
    files.push_back({.name = std::move(name),
                     .bytes = static_cast<std::uint64_t>(status.st_size),
                     .last_use = nanoseconds_of(status.st_mtim)});
  }
  return files;
}

std::int64_t PromptFolder::stamp() const noexcept {
  struct stat status {};

  return ::fstat(folder_.get(), &status) == 0 ? nanoseconds_of(status.st_mtim) : 0;
}

PromptFolder::OpenFile PromptFolder::open(const std::string& name) const noexcept {
  UniqueFd descriptor(::openat(folder_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));

  struct stat status {};

  if (!descriptor || ::fstat(descriptor.get(), &status) != 0 || !is_own_file(status)) return {};
  return {.descriptor = std::move(descriptor), .bytes = static_cast<std::uint64_t>(status.st_size)};
}

bool PromptFolder::write(const std::string& name, std::span<const std::span<const std::byte>> parts,
                         const std::stop_token& stop) const {
  std::uint64_t number = 0;  // process numbers are not enough: containers have their own
  (void)::getrandom(&number, sizeof number, 0);
  const std::string part = fmt::format("{}{}{:016x}", name, part_mark, number);
  constexpr mode_t own = 0600;
  const auto fail = [&](int error) {
    ::unlinkat(folder_.get(), part.c_str(), 0);
    throw_storage_error("write", path_ / name, error);
  };
  UniqueFd descriptor(::openat(folder_.get(), part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, own));
  if (!descriptor) throw_storage_error("write", path_ / name, errno);
  ::flock(descriptor.get(), LOCK_EX | LOCK_NB);
  std::uint64_t position = 0;
  for (const std::span<const std::byte> content : parts) {
    if (stop.stop_requested()) {
      ::unlinkat(folder_.get(), part.c_str(), 0);
      return false;
    }
    if (const int error = write_fully(descriptor.get(), content, position); error != 0) fail(error);
    position += content.size();
  }
  // Not synchronized with the disk: what a power failure leaves of it has another checksum.
  if (::renameat(folder_.get(), part.c_str(), folder_.get(), name.c_str()) != 0) fail(errno);
  return true;
}

void PromptFolder::touch(const std::string& name) const noexcept {
  ::utimensat(folder_.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

void PromptFolder::remove(const std::string& name) const noexcept {
  ::unlinkat(folder_.get(), name.c_str(), 0);
}

}  // namespace gpux::generation
