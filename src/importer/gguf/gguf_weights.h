#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/weights.h"
#include "importer/gguf/gguf_file.h"
#include "importer/gguf/model_settings.h"
#include "importer/gguf/stored_blocks.h"

namespace gpux::importer::gguf {

/// The tensors of a GGUF file as transformers has them: by its names, and with rows of query and key in its order.
/// Norms are as they are in the file: Gemma's have 1 added.
class GgufWeights final : public checkpoint::Weights {
 public:
  /// `file` and `report`, to which blocks() adds, outlive this. `heads` and `kv_heads` are for the order of rows. Error
  /// invalid_model: a tensor that the family does not have, by name.
  GgufWeights(const GgufFile& file, const Family& family, std::int64_t heads, std::int64_t kv_heads,
              StorageReport& report);

  [[nodiscard]] bool has(std::string_view name) const noexcept override { return tensors_.contains(name); }

  [[nodiscard]] std::vector<std::string> names() const override;
  [[nodiscard]] std::uint64_t float32_bytes() const noexcept override;
  [[nodiscard]] const Shape& shape(std::string_view name) const override;
  void require(std::string_view name, const Shape& shape) const override;
  [[nodiscard]] std::vector<float> floats(std::string_view name, const Shape& shape, std::int64_t first_row,
                                          std::int64_t rows) const override;
  using checkpoint::Weights::floats;
  [[nodiscard]] ElementType floating_type(std::string_view name) const override;
  [[nodiscard]] std::vector<std::uint16_t> small_floats(std::string_view name, const Shape& shape,
                                                        std::int64_t first_row, std::int64_t rows) const override;
  [[nodiscard]] std::optional<onnx::BlockFormat> block_format(std::string_view name) const override;
  [[nodiscard]] onnx::BlockMatrix blocks(std::string_view name, const Shape& shape, std::int64_t first_row,
                                         std::int64_t rows) const override;

 private:
  struct Entry {
    std::string stored_name;
    const StoredTensor* tensor = nullptr;
    std::int64_t interleaved_heads = 0;  ///< 0: the rows are in order
  };

  /// Rows of a tensor in the order of transformers.
  struct RowBytes {
    std::span<const std::byte> bytes;
    std::vector<std::byte> reordered;  ///< what `bytes` is a view of, where the file has another order
  };

  [[nodiscard]] const Entry& entry(std::string_view name) const;
  [[nodiscard]] RowBytes rows_of(std::string_view name, const Shape& shape, std::int64_t first_row,
                                 std::int64_t rows) const;

  StorageReport& report_;
  const GgufFile& file_;
  const Family& family_;
  std::map<std::string, Entry, std::less<>> tensors_;
};

/// The row of the file that has row `row` of transformers, where each of `heads` heads has `head_size` rows, and rows
/// 2 i and 2 i + 1 of the file are i and i + head_size / 2.
[[nodiscard]] std::int64_t interleaved_row(std::int64_t row, std::int64_t head_size) noexcept;

}  // namespace gpux::importer::gguf
