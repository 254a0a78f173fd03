#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "block_kernels/block_kernels.h"
#include "decoder/packed_numbers.h"
#include "kernels/shared_array.h"

namespace gpux_cpu::decoder {

/// Weights of 4 or 8 bits as com.microsoft.MatMulNBits has them: for each column, blocks of consecutive elements; two
/// elements of 4 bits in a byte, the lower half first. An element is (value - zero point) * scale - minimum.
struct QuantizedColumns {
  std::size_t bits = 4, block_size = 32;
  std::size_t inner = 0, columns = 0;
  const std::uint8_t* values = nullptr;       ///< [columns, blocks, block_size * bits / 8]
  const float* scales = nullptr;              ///< [columns, blocks]
  const std::uint8_t* zero_points = nullptr;  ///< [columns, blocks * bits / 8, rounded up]; null: 2^(bits - 1)
  const float* minimums = nullptr;            ///< [blocks, columns]; null: 0

  [[nodiscard]] std::size_t blocks() const noexcept { return (inner + block_size - 1) / block_size; }
};

/// A matrix in 8 bits, with its own memory.
struct QuantizedMatrix {
  std::size_t block_size = 32, inner = 0, column_count = 0;
  std::vector<std::uint8_t> values;
  std::vector<float> scales;

  [[nodiscard]] QuantizedColumns columns() const noexcept {
    return {.bits = 8,
            .block_size = block_size,
            .inner = inner,
            .columns = column_count,
            .values = values.data(),
            .scales = scales.data()};
  }
};

/// float[columns, inner], or [inner, columns] (`by_rows`): 127 steps to the largest magnitude of a block, to the
/// nearest.
QuantizedMatrix quantize(const float* values, std::size_t inner, std::size_t columns, bool by_rows,
                         std::size_t block_size);

/// rows * weights + bias, packed for the kernels. Copies share the memory.
class BlockLinear {
 public:
  BlockLinear() = default;
  /// Copies what it is given. The parts have the same inner size, bits and block size; their columns are next to each
  /// other. `bias` has an entry for each column of all parts, or none.
  BlockLinear(std::span<const QuantizedColumns> parts, std::span<const float> bias);

  [[nodiscard]] std::size_t inner() const noexcept { return inner_; }

  [[nodiscard]] std::size_t block_size() const noexcept { return block_size_; }

  [[nodiscard]] std::size_t columns() const noexcept { return columns_; }

  [[nodiscard]] std::size_t panels() const noexcept { return panels_of(columns_); }

  /// Bytes of weights, scales, zero points and minimums that a product reads.
  [[nodiscard]] std::size_t bytes() const noexcept;

  /// How these would be stored alone. Pure.
  static WeightForm form_of(const QuantizedColumns& part);

  /// out[row][0…] = the columns of these panels.
  void multiply(const BlockKernels& kernels, const BlockRows& rows, std::size_t first_panel, std::size_t last_panel,
                float* out, std::size_t out_stride) const noexcept;

  /// The weights of one column, float[inner], without the bias.
  void read_column(std::size_t column, float* out) const noexcept;

 private:
  using Column = std::pair<const QuantizedColumns*, std::size_t>;

  /// Minimums with the zero points in them, [panel][blocks][32]; empty where one would lose a bit, or there are none.
  [[nodiscard]] std::optional<std::vector<float>> minimums_from_zero(std::span<const Column> columns) const;
  void set_zero_points(std::span<const Column> columns);
  /// Chooses the form of values of 8 bits, and how each of them is stored.
  std::array<std::uint8_t, 256> set_form_of_bytes(std::span<const Column> columns);
  /// number(part, column, block) as [panel][blocks][32]; 0 where there is no column.
  template <typename Number>
  [[nodiscard]] std::vector<float> numbers_of(std::span<const Column> columns, const Number& number) const;
  [[nodiscard]] std::size_t panel_bytes() const noexcept;

  std::size_t block_size_ = 32, inner_ = 0, blocks_ = 0, columns_ = 0;
  WeightForm form_ = WeightForm::nibbles;
  std::uint8_t zero_point_ = 0;
  SharedArray<std::uint8_t> weights_, coded_values_, zero_points_;
  PackedNumbers scales_, minimums_;
  SharedArray<float> bias_;
};

}  // namespace gpux_cpu::decoder
