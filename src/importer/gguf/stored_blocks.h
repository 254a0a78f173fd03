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

/// The blocks that hold matrices of a type, with the same elements, bit for bit: of the same codes and scales, and
/// minimums of which whole scales are a zero point. None: the type has no blocks.
[[nodiscard]] std::optional<onnx::BlockFormat> block_format_of(TensorType type) noexcept;

/// Rows of whole blocks in block_format_of(type). Pure. Empty where an element is NaN or infinite.
[[nodiscard]] std::optional<onnx::BlockMatrix> stored_blocks(TensorType type, std::span<const std::byte> bytes,
                                                             std::int64_t rows, std::int64_t columns);

/// How the matrices of a file were stored, as `gpux import` prints it.
class StorageReport {
 public:
  /// A matrix, once its blocks are made.
  void add(TensorType type) { ++matrices_[type]; }

  /// A line for each type with blocks, by its number.
  [[nodiscard]] std::vector<StoredWeights> summary() const;

 private:
  std::map<TensorType, std::int64_t> matrices_;
};

}  // namespace gpux::importer::gguf
