#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "image/picture.h"

namespace gpux::image {

enum class Format : std::uint8_t { jpeg, png, webp };

/// Format of an image file, by its first bytes; empty for anything else.
[[nodiscard]] std::optional<Format> format_of(std::span<const std::byte> file) noexcept;

/// Name of the format: "JPEG", "PNG", "WebP".
[[nodiscard]] std::string_view name_of(Format format) noexcept;

struct Limits {
  std::uint64_t pixels = default_max_pixels;  ///< asked of the file's header, before memory is taken
};

/// A JPEG, PNG or WebP file as pixels of 1 (gray), 3 or 4 channels, turned upright as its EXIF says. As Pillow's
/// convert() does it: alpha is dropped where it was not asked for and 255 where the file has none, 16 bits lose their
/// lower 8, CMYK is taken for Adobe's, gray is (299 red + 587 green + 114 blue) / 1000, color profiles and gamma are
/// left alone. An animation gives its first frame. EXIF that makes no sense is as none. Error invalid_input for what is
/// no such file, cut off, damaged, or larger than `limits` or limit_side. Any thread.
[[nodiscard]] Image decode(std::span<const std::byte> file, std::size_t channels = 3, const Limits& limits = {});

}  // namespace gpux::image
