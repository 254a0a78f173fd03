#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "importer/gguf/tensor_type.h"
#include "importer/imported_model.h"
#include "onnx/block_weights.h"

namespace gpux::importer::gguf {

/// The blocks of MatMulNBits that hold matrices of a type; none: the type has no blocks. Types without minimums become
/// blocks of the same codes and scales, and nothing is lost. The others are rounded to finer blocks with zero points:
/// a minimum is no multiple of its scale in general, zero points are whole numbers, and ONNX Runtime has no fast
/// kernel for other ones.
[[nodiscard]] std::optional<onnx::BlockFormat> block_format_of(TensorType type) noexcept;

/// Accumulated rounding error of matrices.
struct RoundingLoss {
  double squared_error = 0, squared_elements = 0;
};

/// Rows of whole blocks in block_format_of(type). Adds to `loss`. Pure otherwise. Empty where an element is NaN or
/// infinite.
[[nodiscard]] std::optional<onnx::BlockMatrix> stored_blocks(TensorType type, std::span<const std::byte> bytes,
                                                             std::int64_t rows, std::int64_t columns,
                                                             RoundingLoss& loss);

/// How the matrices of a file were stored, as `gpux import` prints it.
class StorageReport {
 public:
  /// A matrix, once its blocks are made.
  void add(TensorType type, const RoundingLoss& loss);

  /// A line for each type with blocks, by its number.
  [[nodiscard]] std::vector<StoredWeights> summary() const;

 private:
  struct OfType {
    std::int64_t matrices = 0;
    RoundingLoss loss;
  };

  std::map<TensorType, OfType> types_;
};

}  // namespace gpux::importer::gguf
