#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "gpux/tensor.h"
#include "onnx/message.h"
#include "onnx/tensor_header.h"

namespace gpux::onnx {

/// The bytes of a model's tensors, wherever they lie. Errors MalformedMessage; not_found, storage, invalid_model for
/// files beside the model.
class TensorData {
 public:
  explicit TensorData(std::filesystem::path model);

  /// The bytes of a float32 tensor, or of any tensor whose data is raw or external.
  std::string bytes(Message tensor, const TensorHeader& header);

  /// The elements of a float32 tensor.
  std::vector<float> floats(const Message& tensor, const TensorHeader& header);

 private:
  std::string_view external(const TensorHeader& header, const ExternalLocation& where);

  std::filesystem::path model_;
  std::map<std::string, MappedFile> files_;
};

/// Appends an initializer to a GraphProto.
void append_tensor(std::string& graph, std::string_view name, ElementType type, const Shape& shape,
                   std::span<const std::byte> bytes);

}  // namespace gpux::onnx
