#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "gpux/tensor.h"
#include "importer/gguf/metadata.h"
#include "importer/gguf/tensor_type.h"

namespace gpux::importer::gguf {

/// Whether the file begins as a GGUF file does, whatever its name is. False where it cannot be read.
[[nodiscard]] bool is_gguf_file(const std::filesystem::path& file);

/// The metadata that the first bytes of a GGUF file hold; what they do not hold all of is missing. Error invalid_model:
/// they are of no such file, or of a version that is not read.
[[nodiscard]] Metadata read_first_metadata(std::string_view first_bytes);

/// A tensor of a file. The sizes are in the order of ONNX and of transformers: the last one is contiguous.
struct StoredTensor {
  TensorType type{};
  Shape shape;
  std::span<const std::byte> bytes;

  [[nodiscard]] std::int64_t rows() const noexcept;          ///< 1 where it has fewer than two dimensions
  [[nodiscard]] std::int64_t row_elements() const noexcept;  ///< the last size
};

/// A GGUF file, versions 2 and 3, little endian (format: ggml/docs/gguf.md), or the parts of one that llama.cpp has
/// split (NAME-00001-of-00003.gguf), of which the first is named. The files stay mapped. Everything in them is checked:
/// counts, sizes, offsets, texts and alignment.
class GgufFile {
 public:
  /// Errors not_found, permission, storage, invalid_model (the reason, with the file's name).
  explicit GgufFile(const std::filesystem::path& file);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }

  [[nodiscard]] const std::map<std::string, StoredTensor, std::less<>>& tensors() const noexcept { return tensors_; }

  /// The tensor of that name; null if there is none.
  [[nodiscard]] const StoredTensor* find(std::string_view tensor) const noexcept;

  /// The elements of `rows` rows from `first_row` on.
  [[nodiscard]] static std::vector<float> elements(const StoredTensor& tensor, std::int64_t first_row,
                                                   std::int64_t rows);

 private:
  void read_part(const std::filesystem::path& file, bool is_first);

  std::string name_;
  std::vector<MappedFile> files_;
  Metadata metadata_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

}  // namespace gpux::importer::gguf
