#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpux/tensor.h"
#include "onnx/message.h"

namespace gpux::onnx {

/// The location of a tensor's data in a file next to the model.
struct ExternalLocation {
  std::string_view path;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  ///< 0: not said
};

/// A TensorProto without its data.
struct TensorHeader {
  std::string_view name;
  ElementType type = ElementType::undefined;
  Shape shape;
  std::int64_t element_count = 1;
  std::uint64_t byte_size = 0;  ///< size of the elements in memory; for strings, of their characters
  std::optional<std::string_view> raw_data;
  std::optional<ExternalLocation> external;
};

/// Reads a tensor's header and holds its shape against the data that is there, without touching the data.
/// Views point into the message. MalformedMessage where they disagree, naming the tensor.
TensorHeader read_tensor_header(Message message);

/// Type and shape as text: "float32[3, 2]".
std::string describe(const TensorHeader& header);

}  // namespace gpux::onnx
