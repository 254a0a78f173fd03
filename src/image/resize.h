#pragma once

#include "image/picture.h"

namespace gpux::image {

/// A part of an image, in its pixels.
struct Window {
  std::int64_t top = 0;
  std::int64_t left = 0;
  Size size;
};

/// The part `window` of what the image would be with the size `scaled`, each channel by itself. Interpolates as
/// Pillow's resize() does, and torch's with antialias on uint8, bit-identical to Pillow: rows first, to 8 bits, then
/// columns. Takes time and memory only for the window, which is inside of `scaled`; sides from 1.
[[nodiscard]] Image resize(const Image& image, Size scaled, const Window& window, Interpolation mode);

}  // namespace gpux::image
