#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "block_kernels/block_kernels.h"
#include "kernels/linear.h"
#include "kernels/shared_array.h"

namespace gpux_cpu::decoder {

enum class SmallFloat : std::uint8_t { float16, bfloat16 };

/// The floats of 16 bits that all weights are, as those are that a file had in 16 bits; empty: of none. Pure.
std::optional<SmallFloat> small_float_of(std::span<const PlainWeights> parts) noexcept;

/// As PlainWeights, with the bit patterns of a SmallFloat.
struct SmallWeights {
  const std::uint16_t* values = nullptr;
  std::size_t inner = 0, columns = 0;
  bool transposed = false;
};

/// rows * weights + bias in float32, with weights in 16 bits that are widened as they are multiplied: the bits of a
/// Linear in float32, in half of its memory. Copies share the memory.
class SmallFloatLinear {
 public:
  /// Copies what it is given. The parts have the same inner size, and are of `type`; their columns are next to each
  /// other. `bias` has an entry for each column of all parts, or none.
  SmallFloatLinear(SmallFloat type, std::span<const PlainWeights> parts, std::span<const float> bias);
  SmallFloatLinear(SmallFloat type, std::span<const SmallWeights> parts, std::span<const float> bias);

  [[nodiscard]] std::size_t inner() const noexcept { return inner_; }

  [[nodiscard]] std::size_t columns() const noexcept { return columns_; }

  [[nodiscard]] std::size_t bytes() const noexcept;

  /// out[row][0…] = the columns of these panels. `rows`: floats.
  void multiply(const BlockKernels& kernels, const Linear::Rows& rows, std::size_t first_panel, std::size_t last_panel,
                float* out, std::size_t out_stride) const noexcept;

  /// The weights of one column, float[inner], without the bias.
  void read_column(std::size_t column, float* out) const noexcept;

 private:
  template <typename Weights, typename Narrow>
  void pack(std::span<const Weights> parts, std::span<const float> bias, const Narrow& narrow);

  SmallFloat type_ = SmallFloat::float16;
  std::size_t inner_ = 0, columns_ = 0;
  SharedArray<std::uint16_t> weights_;  // [panel][inner][32]
  SharedArray<float> bias_;
};

}  // namespace gpux_cpu::decoder
