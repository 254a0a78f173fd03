#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "image/decode.h"

namespace gpux::image {

/// An image as stored in the file.
struct Decoded {
  Image image;
  std::vector<std::byte> exif;  ///< a TIFF structure, with or without "Exif\0\0" before it; empty where there is none
};

/// One file of each format, whose first bytes are right. Errors as decode().
Decoded decode_jpeg(std::span<const std::byte> file, std::size_t channels, const Limits& limits);
Decoded decode_png(std::span<const std::byte> file, std::size_t channels, const Limits& limits);
Decoded decode_webp(std::span<const std::byte> file, std::size_t channels, const Limits& limits);

/// Checks the size in a header. Error invalid_input if it claims more than the limits.
void require_within(Format format, Size size, const Limits& limits);

/// Error invalid_input: "cannot read the JPEG image: REASON".
[[noreturn]] void refuse(Format format, std::string_view reason);

/// Converts an image of three or four channels to one channel of gray, with Pillow's weights.
Image grayed(const Image& image);

}  // namespace gpux::image
