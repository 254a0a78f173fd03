#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// A graph, without ONNX Runtime's types. The data of constants belongs to the caller.
namespace gpux_cpu {

enum class ElementType : std::uint8_t { float32, int64, int32, boolean, other, uint8, float16, bfloat16, int8 };

/// Whether the encoder's recognizer computes with elements of this type.
constexpr bool is_computed(ElementType element_type) noexcept {
  return element_type < ElementType::other;
}

struct Constant {
  ElementType element_type = ElementType::other;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;

  [[nodiscard]] std::size_t count() const noexcept {
    std::size_t product = 1;
    for (const std::int64_t size : shape) product *= static_cast<std::size_t>(size);
    return product;
  }
};

struct Attribute {
  std::vector<std::int64_t> integers;  ///< one for an INT
  float number = 0;
  std::string text;
  ElementType element_type =
      ElementType::float32;  ///< element type of a TENSOR of one element, whose value is `number`
};

struct Node {
  std::string name, type, domain;            ///< domain "" is ONNX's own
  int version = 1;                           ///< opset version of the operator
  std::vector<std::string> inputs, outputs;  ///< "": a missing optional one
  std::map<std::string, Attribute, std::less<>> attributes;
};

/// An input of integers, [batch, sequence].
struct Input {
  std::string name;
  std::vector<std::int64_t> shape;  ///< negative: known only at run time
};

struct Graph {
  std::vector<Node> nodes;  ///< in topological order
  std::map<std::string, Constant, std::less<>> constants;
  std::vector<Input> inputs;
  std::vector<std::string> outputs;  ///< the values that are used outside the graph
};

}  // namespace gpux_cpu
