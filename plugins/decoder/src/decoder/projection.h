#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>

#include "block_kernels/block_kernels.h"
#include "decoder/block_linear.h"
#include "decoder/small_float_linear.h"
#include "kernels/kernels.h"
#include "kernels/linear.h"
#include "kernels/scratch.h"

namespace gpux_cpu::decoder {

/// The inner loops: of blocks and attention, and those of the encoder.
struct KernelTables {
  const BlockKernels& blocks;
  const Kernels& plain;
};

/// How a product reads its rows.
struct RowFormat {
  enum class Kind : std::uint8_t { fp32, bf16, blocks };

  Kind kind = Kind::fp32;
  std::size_t inner = 0;
  std::size_t block_size =
      1;  ///< elements of a block for Kind::blocks; otherwise the elements that are converted together

  bool operator==(const RowFormat&) const = default;
};

/// Rows in the format of the products that read them, in memory that is kept for the next use.
class FormattedRows {
 public:
  /// Room for `count` rows, whose content is not defined.
  void resize(const RowFormat& format, std::size_t count);

  [[nodiscard]] const RowFormat& format() const noexcept { return format_; }

  [[nodiscard]] std::size_t count() const noexcept { return count_; }

  /// Elements [first, first + size) of a row; `first` is a multiple of block_size. Any thread may call for other rows
  /// or elements.
  void set(const KernelTables& kernels, std::size_t row, std::size_t first, std::size_t size,
           const float* values) noexcept;

  /// The rows from `first` on, `count` of them.
  [[nodiscard]] BlockRows blocks(std::size_t first, std::size_t count) const noexcept;
  [[nodiscard]] Linear::Rows plain(std::size_t first, std::size_t count) const noexcept;

 private:
  RowFormat format_;
  std::size_t count_ = 0, blocks_ = 0, stride_ = 0;
  ScratchBuffer<float> float_memory_, scale_memory_;
  ScratchBuffer<std::uint16_t> bfloat16_memory_;
  ScratchBuffer<std::int8_t> byte_memory_;
  ScratchBuffer<std::int32_t> sum_memory_;
  float *floats_ = nullptr, *scales_ = nullptr;
  std::uint16_t* bfloat16s_ = nullptr;
  std::int8_t* bytes_ = nullptr;
  std::int32_t* sums_ = nullptr;
};

/// The formats, all different, that products read the same rows in.
class RowFormats {
 public:
  static constexpr std::size_t most = 3;  ///< those of queries, keys and values

  void add(const RowFormat& format) noexcept;

  [[nodiscard]] std::span<const RowFormat> all() const noexcept { return std::span(formats_).first(count_); }

 private:
  std::array<RowFormat, most> formats_;
  std::size_t count_ = 0;
};

/// Rows in several formats.
class RowsInFormats {
 public:
  /// As that of FormattedRows.
  void resize(const RowFormats& formats, std::size_t count);
  void set(const KernelTables& kernels, std::size_t row, std::size_t size, const float* values) noexcept;

  /// In one of the formats.
  [[nodiscard]] const FormattedRows& in(const RowFormat& format) const noexcept;

 private:
  std::array<FormattedRows, RowFormats::most> rows_;
  std::size_t formats_ = 0;
};

/// A matrix product with packed weights. Copies share the memory.
class Projection {
 public:
  Projection() = default;

  // Implicit: each of these is one.
  Projection(BlockLinear linear) : linear_(std::move(linear)) {}

  Projection(Linear linear) : linear_(std::move(linear)) {}

  Projection(SmallFloatLinear linear) : linear_(std::move(linear)) {}

  [[nodiscard]] RowFormat format() const noexcept;

  [[nodiscard]] std::size_t columns() const noexcept;

  [[nodiscard]] std::size_t panels() const noexcept { return panels_of(columns()); }

  /// Columns of whole panels.
  [[nodiscard]] std::size_t padded_columns() const noexcept { return panels() * panel_columns; }

  /// Bytes of weights that a product reads.
  [[nodiscard]] std::size_t bytes() const noexcept;

  /// out[i][0…] = the columns of these panels, for the `count` rows from `first_row` on.
  void multiply(const KernelTables& kernels, const FormattedRows& rows, std::size_t first_row, std::size_t count,
                std::size_t first_panel, std::size_t last_panel, float* out, std::size_t out_stride) const noexcept;

  /// The weights of one column, float[inner], without the bias.
  void read_column(std::size_t column, float* out) const noexcept;

 private:
  std::variant<BlockLinear, Linear, SmallFloatLinear> linear_;
};

}  // namespace gpux_cpu::decoder
