#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/model_info.h"
#include "onnx/tensor_header.h"

namespace gpux::onnx {

/// The files beside a model that its tensors refer to, each looked at once.
class ExternalFiles {
 public:
  explicit ExternalFiles(const std::filesystem::path& model);

  /// Takes note that a tensor of `byte_size` bytes lies there. Error invalid_model, naming the tensor and the location,
  /// where the file is not in or below the model's folder.
  void add(std::string_view tensor, const ExternalLocation& location, std::uint64_t byte_size);

  /// Whether the location, as a model writes it, is that of a file in or below the model's folder.
  [[nodiscard]] bool is_inside_folder(std::string_view location) const;

  /// In the order in which they were first named. `present` says that a file is there and long enough.
  [[nodiscard]] std::vector<ExternalFile> files() const { return files_; }

 private:
  [[nodiscard]] bool is_inside(const std::filesystem::path& file) const;
  ExternalFile& file_at(std::string_view tensor, std::string_view location);

  std::filesystem::path model_;
  std::vector<std::filesystem::path> folders_;
  std::vector<ExternalFile> files_;
  std::vector<std::uint64_t> sizes_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace gpux::onnx
