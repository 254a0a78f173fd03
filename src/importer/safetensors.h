#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "gpux/tensor.h"

namespace gpux::importer {

/// model.safetensors, or model.safetensors.index.json, of the folder; empty where it has neither.
std::optional<std::filesystem::path> safetensors_in(const std::filesystem::path& folder);

/// The tensors of a .safetensors file (format: github.com/huggingface/safetensors, "Format"), or of the several files
/// beside a .safetensors.index.json, as transformers cuts large models. The files stay mapped.
class Safetensors {
 public:
  /// `file` is either. Errors not_found, storage, invalid_model.
  explicit Safetensors(const std::filesystem::path& file);

  [[nodiscard]] bool has(std::string_view name) const noexcept { return tensors_.find(name) != tensors_.end(); }

  [[nodiscard]] std::vector<std::string> names() const;

  /// The size of all tensors of floating type as float32.
  [[nodiscard]] std::uint64_t float32_bytes() const noexcept;

  /// Error invalid_model where there is no such tensor.
  [[nodiscard]] const Shape& shape(std::string_view name) const;

  /// Errors as floats(), which reads the elements.
  void require(std::string_view name, const Shape& shape) const;

  /// The type of a tensor of floating type: float16, bfloat16, float32 or float64. Error invalid_model: it is of
  /// another type, or there is none of that name.
  [[nodiscard]] ElementType floating_type(std::string_view name) const;

  /// The elements of a tensor of floating type as float32. Errors invalid_model: there is none of that name, its sizes
  /// are others, or it is of another type.
  [[nodiscard]] std::vector<float> floats(std::string_view name, const Shape& shape) const;

  /// `rows` rows of it from `first_row` on, one behind the other.
  [[nodiscard]] std::vector<float> floats(std::string_view name, const Shape& shape, std::int64_t first_row,
                                          std::int64_t rows) const;

  /// The same as bit patterns, of a tensor of float16 or bfloat16.
  [[nodiscard]] std::vector<std::uint16_t> small_floats(std::string_view name, const Shape& shape,
                                                        std::int64_t first_row, std::int64_t rows) const;

 private:
  struct Entry {
    std::string type;
    Shape shape;
    std::span<const std::byte> bytes;
  };

  void add(const std::filesystem::path& file);
  [[nodiscard]] const Entry& entry(std::string_view name) const;
  [[nodiscard]] std::span<const std::byte> bytes_of_rows(std::string_view name, const Shape& shape,
                                                         std::int64_t first_row, std::int64_t rows) const;

  std::string file_name_;
  std::vector<MappedFile> files_;
  std::map<std::string, Entry, std::less<>> tensors_;
};

}  // namespace gpux::importer
