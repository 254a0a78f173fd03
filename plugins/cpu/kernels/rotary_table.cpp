#include "kernels/rotary_table.h"

#include <cmath>
#include <utility>
#include <vector>

namespace gpux_cpu {

RotaryTable make_rotary_table(std::span<const float> inverse_frequencies, std::size_t positions, bool interleaved,
                              double attention_factor) {
  std::vector<float> cosines, sines;
  cosines.reserve(positions * inverse_frequencies.size());
  sines.reserve(positions * inverse_frequencies.size());
  for (std::size_t position = 0; position < positions; ++position) {
    for (const float frequency : inverse_frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      cosines.push_back(static_cast<float>(std::cos(static_cast<double>(angle)) * attention_factor));
      sines.push_back(static_cast<float>(std::sin(static_cast<double>(angle)) * attention_factor));
    }
  }
  return {2 * inverse_frequencies.size(), interleaved, std::move(cosines), std::move(sines)};
}

}  // namespace gpux_cpu
