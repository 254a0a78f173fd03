#pragma once

#include <cstdint>
#include <vector>

#include "importer/families/vision.h"

namespace gpux::importer {

/// Position embeddings [from * from, size] of a square grid, for a grid of [height, width]: torch's
/// interpolate(mode="bicubic", align_corners=False), with or without antialias. Computed in double. `resize` is not
/// refused. Pure.
[[nodiscard]] std::vector<float> resized_positions(const std::vector<float>& positions, std::int64_t from,
                                                   std::int64_t height, std::int64_t width, std::int64_t size,
                                                   PositionResize resize);

}  // namespace gpux::importer
