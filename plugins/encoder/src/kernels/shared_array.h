#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/large_pages.h"

namespace gpux_encoder {

/// An immutable array of numbers: its own, or in memory of another owner, such as a mapped file. Copies share it.
template <typename Number>
class Numbers {
 public:
  Numbers() = default;

  // Implicit, as a list of numbers is what it is made of.
  Numbers(std::vector<Number> own) {
    auto kept = std::make_shared<const std::vector<Number>>(std::move(own));
    all_ = *kept;
    keeper_ = std::move(kept);
  }

  /// A copy, in large pages.
  static Numbers in_large_pages(std::span<const Number> all) {
    if (all.empty()) return {};
    std::shared_ptr<std::byte> room = room_in_large_pages(all.size_bytes());
    auto* const first = reinterpret_cast<Number*>(room.get());
    std::ranges::copy(all, first);
    return {std::span<const Number>(first, all.size()), std::move(room)};
  }

  /// `all` lives as long as `keeper`.
  Numbers(std::span<const Number> all, std::shared_ptr<const void> keeper) : keeper_(std::move(keeper)), all_(all) {}

  [[nodiscard]] const Number* data() const noexcept { return all_.data(); }

  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }

 private:
  std::shared_ptr<const void> keeper_;
  std::span<const Number> all_;
};

}  // namespace gpux_encoder
