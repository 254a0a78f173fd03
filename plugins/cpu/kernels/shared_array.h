#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/large_pages.h"

namespace gpux_cpu {

/// An immutable array: its own, or in memory of another owner, such as a mapped file. Copies share it.
template <typename Element>
class SharedArray {
 public:
  SharedArray() = default;

  // Implicit: a vector is such an array.
  SharedArray(std::vector<Element> own) {
    auto kept = std::make_shared<const std::vector<Element>>(std::move(own));
    all_ = *kept;
    keeper_ = std::move(kept);
  }

  /// A copy, in large pages.
  static SharedArray in_large_pages(std::span<const Element> all) {
    if (all.empty()) return {};
    std::shared_ptr<std::byte> memory = allocate_in_large_pages(all.size_bytes());
    auto* const first = reinterpret_cast<Element*>(memory.get());
    std::ranges::copy(all, first);
    return {std::span<const Element>(first, all.size()), std::move(memory)};
  }

  /// `all` lives as long as `keeper`.
  SharedArray(std::span<const Element> all, std::shared_ptr<const void> keeper)
      : keeper_(std::move(keeper)), all_(all) {}

  [[nodiscard]] const Element* data() const noexcept { return all_.data(); }

  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }

 private:
  std::shared_ptr<const void> keeper_;
  std::span<const Element> all_;
};

}  // namespace gpux_cpu
