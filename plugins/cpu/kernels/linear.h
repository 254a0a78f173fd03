#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/kernels.h"
#include "kernels/shared_array.h"

namespace gpux_cpu {

/// Precision of matrix products. bf16 accumulates in float32. int8 has a scale for each row and column, and accumulates
/// exactly. int8_bf16, for encoders only, is int8 with bf16 in the attention of the last layers, where int8 loses most
/// accuracy.
enum class Precision : std::uint8_t { fp32, bf16, int8, int8_bf16 };

/// Values of the provider's option "precision", in the order of Precision.
constexpr std::array<std::string_view, 4> precision_names{"fp32", "bf16", "int8", "int8-bf16"};

/// How many elements of a row the kernels read in this precision: `inner` and what fills it up.
std::size_t padded_inner(Precision precision, std::size_t inner) noexcept;

/// Rows of bytes are not longer: sums of products of bytes then fit 32 bits.
inline constexpr std::size_t max_byte_inner = 32768;

/// Weights as ONNX has them: row after row of [inner, columns], or [columns, inner] where they are transposed.
struct PlainWeights {
  const float* values = nullptr;
  std::size_t inner = 0, columns = 0;
  bool transposed = false;
};

/// rows * weights + bias, packed for the kernels. Several matrices with the same rows may be next to each other.
class Linear {
 public:
  Linear() = default;
  /// Copies what it is given. `precision` is that of a product, not int8_bf16. `bias` has an entry for each column of
  /// all parts, or none. Throws std::length_error if rows of Precision::int8 are longer than max_byte_inner.
  Linear(Precision precision, std::span<const PlainWeights> parts, std::span<const float> bias);

  [[nodiscard]] Precision precision() const noexcept { return precision_; }

  [[nodiscard]] std::size_t inner() const noexcept { return inner_; }

  /// Columns of the result, whole panels; what is beyond the weights' own columns is 0.
  [[nodiscard]] std::size_t columns() const noexcept { return panels_of(columns_) * panel_columns; }

  /// The weights' own columns.
  [[nodiscard]] std::size_t unpadded_columns() const noexcept { return columns_; }

  [[nodiscard]] std::size_t panels() const noexcept { return panels_of(columns_); }

  /// Elements of a row of `precision` that this reads: inner() and what fills it up.
  [[nodiscard]] std::size_t row_stride() const noexcept { return padded_inner_; }

  [[nodiscard]] std::size_t bytes() const noexcept;

  /// Whether this is a matrix of `columns` own columns, and all its arrays have the sizes that this takes, and sums
  /// that do not overflow.
  [[nodiscard]] bool has_shape(Precision precision, std::size_t inner, std::size_t columns) const noexcept;

  /// Rows as they are multiplied; which of the three is filled depends on the precision.
  struct Rows {
    std::size_t count = 0;
    const float* floats = nullptr;
    std::size_t float_stride = 0;
    std::uint16_t* bfloat16s = nullptr;  ///< row_stride() apart, as are the bytes
    std::uint8_t* bytes = nullptr;
    float* scale = nullptr;
    std::int32_t* zero = nullptr;
  };

  /// The rows from `first` on, `count` of them.
  [[nodiscard]] Rows part_of(const Rows& rows, std::size_t first, std::size_t count) const noexcept;

  /// Converts some of the rows; nothing to do for float32.
  void convert(const Kernels& kernels, const Rows& rows, std::size_t first, std::size_t last) const noexcept;

  /// Panels of the product of converted rows: out[row][column], `out_stride` apart.
  void multiply(const Kernels& kernels, const Rows& rows, std::size_t first_panel, std::size_t last_panel, float* out,
                std::size_t out_stride) const noexcept;

  /// Multiplies some panels, with the first of them in the first column of `out`.
  void multiply_part(const Kernels& kernels, const Rows& rows, std::size_t first_panel, std::size_t last_panel,
                     float* out, std::size_t out_stride) const noexcept;

  /// The weights of one column, float[inner], as they are kept, without the bias.
  void read_column(std::size_t column, float* out) const noexcept;

  /// archive(member) for each member, in the order of files: to read them, or of a constant one to write them.
  template <typename Archive, typename SomeLinear>
  static void visit(Archive& archive, SomeLinear& linear) {
    archive(linear.precision_);
    archive(linear.inner_);
    archive(linear.padded_inner_);
    archive(linear.columns_);
    archive(linear.floats_);
    archive(linear.bias_);
    archive(linear.column_scale_);
    archive(linear.bfloat16s_);
    archive(linear.bytes_);
    archive(linear.column_sum_);
  }

 private:
  Precision precision_ = Precision::fp32;
  std::size_t inner_ = 0, padded_inner_ = 0, columns_ = 0;
  SharedArray<float> floats_, bias_, column_scale_;
  SharedArray<std::uint16_t> bfloat16s_;
  SharedArray<std::int8_t> bytes_;
  SharedArray<std::int32_t> column_sum_;
};

}  // namespace gpux_cpu
