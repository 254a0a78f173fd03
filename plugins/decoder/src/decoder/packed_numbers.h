#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "block_kernels/block_kernels.h"
#include "kernels/shared_array.h"

namespace gpux_cpu::decoder {

/// Numbers of blocks in the first of these forms that has each of them exactly: float16, steps, float32. Copies share
/// the memory.
class PackedNumbers {
 public:
  PackedNumbers() = default;
  /// `numbers`: [panel][blocks][32], not empty; a block has `block_size` elements. Copies what it is given.
  PackedNumbers(std::span<const float> numbers, std::size_t blocks, std::size_t block_size);

  [[nodiscard]] BlockNumbers view() const noexcept;
  /// The number of a block of all panels, in this column of the panel.
  [[nodiscard]] float at(std::size_t block, std::size_t column) const noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept;

  [[nodiscard]] bool empty() const noexcept { return floats_.empty() && halves_.empty() && steps_.empty(); }

 private:
  bool pack_halves(std::span<const float> numbers);
  bool pack_steps(std::span<const float> numbers, std::size_t blocks, std::size_t block_size);

  SharedArray<float> floats_, step_size_;
  SharedArray<std::uint16_t> halves_;
  SharedArray<std::int8_t> steps_;
  std::size_t step_shift_ = 0;
};

/// The number of which each of `numbers` is a multiple of -128 to 127, in float32; `steps` are those then. This is how
/// llama.cpp's K types have the scales and minimums of 256 elements. Pure.
std::optional<float> common_step(std::span<const float> numbers, std::span<std::int8_t> steps) noexcept;

}  // namespace gpux_cpu::decoder
