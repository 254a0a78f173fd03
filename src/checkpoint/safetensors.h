#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "checkpoint/weights.h"
#include "gpux/tensor.h"

namespace gpux::checkpoint {

/// model.safetensors, or model.safetensors.index.json, of the folder; empty where it has neither.
std::optional<std::filesystem::path> safetensors_in(const std::filesystem::path& folder);

/// The files that model.safetensors.index.json, with this text, divides a model into: names without folders, sorted.
/// Error invalid_model that begins with `name`.
std::vector<std::string> parts_of_index(std::string_view index_json, const std::string& name);

/// The tensors of a .safetensors file (format: github.com/huggingface/safetensors, "Format"), or of the several files
/// beside a .safetensors.index.json, as transformers cuts large models. The files stay mapped.
class Safetensors final : public Weights {
 public:
  /// `file` is either. Errors not_found, storage, invalid_model.
  explicit Safetensors(const std::filesystem::path& file);

  [[nodiscard]] bool has(std::string_view name) const noexcept override {
    return tensors_.find(name) != tensors_.end();
  }

  [[nodiscard]] std::vector<std::string> names() const override;
  [[nodiscard]] std::uint64_t float32_bytes() const noexcept override;
  [[nodiscard]] const Shape& shape(std::string_view name) const override;
  void require(std::string_view name, const Shape& shape) const override;

  [[nodiscard]] ElementType floating_type(std::string_view name) const override;
  /// F32, F16, BF16 and F64 are read.
  [[nodiscard]] std::vector<float> floats(std::string_view name, const Shape& shape, std::int64_t first_row,
                                          std::int64_t rows) const override;
  using Weights::floats;

  /// The bit patterns of a float16 or bfloat16 tensor.
  [[nodiscard]] std::vector<std::uint16_t> small_floats(std::string_view name, const Shape& shape,
                                                        std::int64_t first_row, std::int64_t rows) const override;

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

}  // namespace gpux::checkpoint
