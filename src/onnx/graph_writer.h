#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gpux/tensor.h"

namespace gpux::onnx {

/// A size of an input or output: a number, or the name of a free one.
using WrittenSize = std::variant<std::int64_t, std::string>;

/// An attribute of a node: integer, float, text, or a list of integers.
using AttributeValue = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

/// An ONNX model of one graph in the making. Nodes go in the order in which they run. Names of values that are not
/// given are made up.
class GraphWriter {
 public:
  explicit GraphWriter(std::string_view name);

  void input(std::string_view name, ElementType type, std::span<const WrittenSize> sizes);
  void output(std::string_view name, ElementType type, std::span<const WrittenSize> sizes);

  /// A constant; the elements are copied. Returns its name.
  std::string floats(std::string_view name, std::span<const float> elements, const Shape& shape);
  std::string integers(std::span<const std::int64_t> elements);  ///< a list
  std::string scalar(float value);

  /// A node of ONNX's own domain with one output, whose name is returned.
  std::string node(std::string_view type, const std::vector<std::string>& inputs, const Attributes& attributes = {},
                   std::string_view output = {});

  /// Writes the model, replacing the file as a whole. Nothing may be added afterwards. Errors storage, permission.
  void write(const std::filesystem::path& file, std::int64_t opset, std::int64_t ir_version) const;

 private:
  std::string made_up(std::string_view stem);
  void value(std::uint32_t field, std::string_view name, ElementType type, std::span<const WrittenSize> sizes);
  void tensor(std::string_view name, ElementType type, std::span<const std::byte> bytes, const Shape& shape);

  std::string graph_;  // the message so far
  std::size_t count_ = 0;
};

}  // namespace gpux::onnx
