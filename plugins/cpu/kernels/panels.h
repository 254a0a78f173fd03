#pragma once

#include <cstddef>

namespace gpux_cpu {

/// Weights are packed in panels of this many columns; the last one is padded with 0.
constexpr std::size_t panel_columns = 32;

constexpr std::size_t panels_of(std::size_t columns) noexcept {
  return (columns + panel_columns - 1) / panel_columns;
}

}  // namespace gpux_cpu
