#pragma once

#include <cstddef>
#include <span>

#include "kernels/shared_array.h"

namespace gpux_cpu {

/// Rotary positions: the first `dimensions` elements of each query and key head are rotated in pairs, by the angles of
/// the token's position id. The elements of pair i are i and i + dimensions / 2; interleaved: 2 * i and 2 * i + 1.
struct RotaryTable {
  std::size_t dimensions = 0;  ///< even, at most head_size
  bool interleaved = false;
  SharedArray<float> cosines, sines;  ///< [positions, dimensions / 2]
};

/// A table of angles position * inverse_frequencies[pair] for the positions below `positions`, cosines and sines times
/// `attention_factor`. As transformers does it, an angle is rounded to float32; its cosine and sine are exact to
/// float32. `dimensions` is twice the number of frequencies.
RotaryTable make_rotary_table(std::span<const float> inverse_frequencies, std::size_t positions, bool interleaved,
                              double attention_factor);

}  // namespace gpux_cpu
