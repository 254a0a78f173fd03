#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "image/picture.h"

namespace gpux::image {

/// Height and width as the header of a JPEG, PNG or WebP file claims them, before it is turned upright; nothing is
/// decoded and no memory is taken. `file` may be cut off behind its header. Empty where it has none.
[[nodiscard]] std::optional<Size> size_in_header(std::span<const std::byte> file) noexcept;

}  // namespace gpux::image
