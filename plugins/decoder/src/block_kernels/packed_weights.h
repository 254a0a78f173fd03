#pragma once

#include <cstddef>
#include <cstdint>

#include "block_kernels/block_kernels.h"

namespace gpux_cpu::decoder {

/// A weight as it is stored in a panel: of coded_nibbles, the index. Pure.
constexpr std::uint8_t stored_weight(WeightForm form, const std::uint8_t* panel, std::size_t inner,
                                     std::size_t column) noexcept {
  constexpr std::size_t row = panel_columns * 4;
  const std::size_t in_row = column * 4 + inner % 4;
  const auto nibble = [&](std::size_t of_row) { return panel[of_row * row + in_row] >> (inner % 8 < 4 ? 0 : 4) & 15; };
  switch (form) {
    case WeightForm::nibbles:
    case WeightForm::coded_nibbles:
      return static_cast<std::uint8_t>(nibble(inner / 8));
    case WeightForm::six_bits: {
      const std::size_t first = inner / 16 * 3;
      const int upper = panel[(first + 2) * row + in_row] >> inner % 16 / 4 * 2 & 3;
      return static_cast<std::uint8_t>(nibble(first + inner % 16 / 8) | upper << 4);
    }
    case WeightForm::small_bytes:
    case WeightForm::bytes:
      break;
  }
  return panel[inner / 4 * row + in_row];
}

}  // namespace gpux_cpu::decoder
