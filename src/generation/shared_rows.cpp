#include "generation/shared_rows.h"

#include <atomic>
#include <cstdlib>
#include <fstream>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/write_fully.h"

namespace gpux::generation {
namespace {

// What was mapped there is gone: nothing that reads it could go on.
void require_mapped(const void* mapped) noexcept {
  if (mapped != MAP_FAILED) return;
  log::error("no memory can be mapped for keys and values");
  std::abort();
}

std::size_t most_parts() noexcept {
  static const std::size_t most = [] {
    constexpr std::size_t usual = 65530;  // vm.max_map_count of Linux
    std::size_t allowed = 0;
    try {
      std::ifstream("/proc/sys/vm/max_map_count") >> allowed;
    } catch (...) {
      allowed = 0;
    }
    return (allowed == 0 ? usual : allowed) / 4;
  }();
  return most;
}

std::atomic<std::size_t> parts_of_process = 0;

}  // namespace

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

void map_private(std::byte* at, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  require_mapped(
      ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
}

std::shared_ptr<SharedRows> SharedRows::copy_of(std::size_t heads, std::size_t bytes,
                                                const std::function<const std::byte*(std::size_t head)>& rows) {
  // Beyond this a write ends the process.
  rlimit largest{};
  if (::getrlimit(RLIMIT_FSIZE, &largest) != 0 || heads * bytes > largest.rlim_cur) return nullptr;
  UniqueFd file(::memfd_create("gpux-rows", MFD_CLOEXEC));
  if (!file) return nullptr;
  for (std::size_t head = 0; head < heads; ++head) {
    if (write_fully(file.get(), {rows(head), bytes}, head * bytes) != 0) return nullptr;
  }
  return std::shared_ptr<SharedRows>(new SharedRows(std::move(file), heads, bytes));
}

void SharedRows::map(std::size_t head, std::size_t bytes, std::byte* at) const noexcept {
  if (bytes == 0) return;
  require_mapped(::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, file_.get(),
                        static_cast<off_t>(head * bytes_)));
}

void SharedRows::shrink(std::size_t bytes) noexcept {
  if (bytes >= held_) return;
  for (std::size_t head = 0; head < heads_; ++head) {
    // Where the system does not do it, they stay as long as the file.
    (void)::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(head * bytes_ + bytes), static_cast<off_t>(held_ - bytes));
  }
  held_ = bytes;
}

bool MappedParts::take(std::size_t count) noexcept {
  std::size_t taken = parts_of_process;
  do {
    if (taken + count > most_parts()) return false;
  } while (!parts_of_process.compare_exchange_weak(taken, taken + count));
  count_ += count;
  return true;
}

void MappedParts::release() noexcept {
  parts_of_process -= std::exchange(count_, 0);
}

}  // namespace gpux::generation
