#include "kernels/large_pages.h"

#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "kernels/memory_nodes.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace gpux_cpu {
namespace {

constexpr std::size_t page_bytes = std::size_t{2} << 20, line_bytes = 64;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

/// Whole pages, given out from their beginning.
class Pages {
 public:
  explicit Pages(std::size_t bytes)
      : bytes_(rounded_up(bytes, page_bytes)), begin_(static_cast<std::byte*>(std::aligned_alloc(page_bytes, bytes_))) {
    if (begin_ == nullptr) throw std::bad_alloc();
#if defined(__linux__)
    (void)::madvise(begin_, bytes_, MADV_HUGEPAGE);  // optional
#endif
    spread_over_nodes(begin_, bytes_);
  }

  ~Pages() { std::free(begin_); }

  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  /// Null if less than `bytes` is left.
  std::byte* take(std::size_t bytes) noexcept {
    if (bytes_ - used_ < bytes) return nullptr;
    std::byte* const taken = begin_ + used_;
    used_ += bytes;
    return taken;
  }

 private:
  std::size_t bytes_, used_ = 0;
  std::byte* begin_;
};

}  // namespace

std::shared_ptr<std::byte> allocate_in_large_pages(std::size_t bytes) {
  static std::mutex mutex;
  static std::weak_ptr<Pages> latest;  // as long as some of its memory is in use
  const std::size_t rounded = rounded_up(bytes, line_bytes);
  const std::lock_guard lock(mutex);
  std::shared_ptr<Pages> pages = latest.lock();
  std::byte* taken = pages ? pages->take(rounded) : nullptr;
  if (taken == nullptr) {
    pages = std::make_shared<Pages>(rounded);
    latest = pages;
    taken = pages->take(rounded);
  }
  return {std::move(pages), taken};
}

}  // namespace gpux_cpu
