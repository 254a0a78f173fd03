#include "base/changing_files.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gpux {
namespace {

namespace fs = std::filesystem;

FileStamp stamp_from(const struct stat& status) {
  constexpr std::int64_t second_ns = 1'000'000'000;
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = static_cast<std::uint64_t>(status.st_size),
          .modified_ns = status.st_mtim.tv_sec * second_ns + status.st_mtim.tv_nsec,
          .changed_ns = status.st_ctim.tv_sec * second_ns + status.st_ctim.tv_nsec};
}

// The kernel writes the name of a file so in /proc/self/maps.
std::string as_in_maps(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '\n' ? std::string("\\012") : std::string(1, c);
  return text;
}

// Fewer bytes where the file ends.
std::size_t read_at(int file, std::byte* memory, std::size_t size, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::pread(file, memory + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

[[noreturn]] void fail(const fs::path& file, int error_number) {
  throw Error(ErrorCode::resource_exhausted, fmt::format("'{}' cannot be copied to memory: {}", file.string(),
                                                         std::generic_category().message(error_number)));
}

}  // namespace

FileStamp stamp_of(const fs::path& file) {
  struct stat status {};

  return ::stat(file.c_str(), &status) == 0 ? stamp_from(status) : FileStamp();
}

FileChanged::FileChanged(const fs::path& file)
    : Error(ErrorCode::storage,
            fmt::format("'{}' was changed while it was loaded: load it again once it is whole", file.string())) {}

/// A line of /proc/self/maps.
struct ChangingFiles::Mapping {
  std::uintptr_t begin = 0, end = 0;
  std::uint64_t offset = 0;
  bool is_private = false;  ///< and may be written
  std::string path;
};

ChangingFiles::ChangingFiles(const std::vector<fs::path>& files) {
  for (const fs::path& path : files) {
    UniqueFd descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));

    struct stat status {};

    if (!descriptor || ::fstat(descriptor.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    std::error_code error;
    const fs::path resolved = fs::canonical(path, error);
    if (error) continue;
    files_.push_back({path, as_in_maps(resolved.string()), std::move(descriptor), stamp_from(status)});
  }
}

std::vector<ChangingFiles::Mapping> ChangingFiles::mappings() {
  std::vector<Mapping> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    // "7efd07200000-7efd27200000 rw-p 00000000 fe:00 10002703                   /tmp/weights.bin"
    std::istringstream fields(line);
    std::string range, rights, offset, device, inode;
    fields >> range >> rights >> offset >> device >> inode;
    const std::size_t name = line.find('/');
    if (name == std::string::npos || rights.size() < 4) continue;
    Mapping mapping{.is_private = rights[1] == 'w' && rights[3] == 'p', .path = line.substr(name)};
    constexpr int hexadecimal = 16;
    const char* const end = range.data() + range.size();
    const auto begun = std::from_chars(range.data(), end, mapping.begin, hexadecimal);
    if (begun.ec != std::errc() || begun.ptr == end) continue;
    std::from_chars(begun.ptr + 1, end, mapping.end, hexadecimal);
    std::from_chars(offset.data(), offset.data() + offset.size(), mapping.offset, hexadecimal);
    found.push_back(std::move(mapping));
  }
  return found;
}

void ChangingFiles::copy(const File& file, const Mapping& mapping) {
  // So that the process never has much more than the mapping itself.
  constexpr std::size_t largest_part = std::size_t{64} << 20;
  for (std::uintptr_t at = mapping.begin; at < mapping.end;) {
    const std::size_t size = std::min<std::size_t>(largest_part, mapping.end - at);
    const std::uint64_t offset = mapping.offset + (at - mapping.begin);
    void* const part = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (part == MAP_FAILED) fail(file.path, errno);
    (void)::madvise(part, size, MADV_HUGEPAGE);
    const std::uint64_t there = file.stamp.size > offset ? file.stamp.size - offset : 0;
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(size, there));
    const bool is_whole = read_at(file.descriptor.get(), static_cast<std::byte*>(part), wanted, offset) == wanted;
    void* const place = reinterpret_cast<void*>(at);
    const bool is_moved = is_whole && ::mremap(part, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place) != MAP_FAILED;
    if (!is_moved) {
      const int error_number = errno;
      ::munmap(part, size);
      if (!is_whole) throw FileChanged(file.path);
      fail(file.path, error_number);
    }
    at += size;
  }
}

bool ChangingFiles::are_mapped() const {
  return std::ranges::any_of(mappings(), [&](const Mapping& mapping) {
    return mapping.is_private && std::ranges::find(files_, mapping.path, &File::resolved) != files_.end();
  });
}

void ChangingFiles::detach() const {
  for (const Mapping& mapping : mappings()) {
    if (!mapping.is_private) continue;
    const auto file = std::ranges::find(files_, mapping.path, &File::resolved);
    if (file != files_.end()) copy(*file, mapping);
  }
  require_unchanged();
}

void ChangingFiles::require_unchanged() const {
  for (const File& file : files_) {
    if (stamp_of(file.path) != file.stamp) throw FileChanged(file.path);
  }
}

}  // namespace gpux
