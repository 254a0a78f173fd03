#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "image/picture.h"

namespace gpux::image {

/// EXIF's tag 0x0112: what the first row and the first column of the file are of the image.
enum class Orientation : std::uint8_t {
  upright = 1,
  mirrored = 2,         ///< left and right changed
  turned_around = 3,    ///< by 180 degrees
  upside_down = 4,      ///< top and bottom changed
  transposed = 5,       ///< rows and columns changed
  turn_right = 6,       ///< a quarter clockwise makes it upright
  anti_transposed = 7,  ///< rows and columns changed, along the other diagonal
  turn_left = 8,        ///< a quarter counterclockwise makes it upright
};

/// The orientation in EXIF data (a TIFF structure, with or without "Exif\0\0" before it); upright where it says nothing
/// or no sense.
[[nodiscard]] Orientation orientation_of(std::span<const std::byte> exif) noexcept;

/// The image as it is to be seen.
[[nodiscard]] Image upright(Image image, Orientation orientation);

}  // namespace gpux::image
