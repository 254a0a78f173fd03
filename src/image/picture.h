#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "image/recipe.h"

namespace gpux::image {

/// Pixels in memory: rows from the top, pixels from the left, 8 bits a channel, nothing between rows. Channels: gray;
/// red, green, blue; red, green, blue, alpha (not multiplied into the colors).
class Image {
 public:
  Image() = default;

  /// Black, and where it has alpha transparent: what a damaged file leaves out shows nothing of this process. Each side
  /// from 1 to limit_side.
  Image(Size size, std::size_t channels) : size_(size), channels_(channels), pixels_(byte_size()) {}

  [[nodiscard]] Size size() const noexcept { return size_; }

  [[nodiscard]] std::int64_t height() const noexcept { return size_.height; }

  [[nodiscard]] std::int64_t width() const noexcept { return size_.width; }

  [[nodiscard]] std::size_t channels() const noexcept { return channels_; }

  [[nodiscard]] std::size_t row_bytes() const noexcept { return static_cast<std::size_t>(size_.width) * channels_; }

  [[nodiscard]] std::size_t byte_size() const noexcept { return row_bytes() * static_cast<std::size_t>(size_.height); }

  [[nodiscard]] const std::uint8_t* row(std::int64_t y) const noexcept {
    return pixels_.data() + static_cast<std::size_t>(y) * row_bytes();
  }

  [[nodiscard]] std::uint8_t* row(std::int64_t y) noexcept {
    return pixels_.data() + static_cast<std::size_t>(y) * row_bytes();
  }

 private:
  Size size_;
  std::size_t channels_ = 0;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace gpux::image
