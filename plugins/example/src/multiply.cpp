#include "multiply.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gpux_example {
namespace {

/// A dimension as the graph states it: a size, or -1 with the name that stands for it (empty where it has none).
struct Dimension {
  std::int64_t size;
  std::string name;
};

bool same(const Dimension& left, const Dimension& right) {
  if (left.size >= 0 || right.size >= 0) return left.size == right.size;
  return !left.name.empty() && left.name == right.name;
}

bool is_float_tensor(const Ort::ConstValueInfo& value) {
  const Ort::ConstTypeInfo type = value.TypeInfo();
  return type.GetONNXType() == ONNX_TYPE_TENSOR &&
         type.GetTensorTypeAndShapeInfo().GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

std::vector<Dimension> stated_dimensions(const Ort::ConstValueInfo& value) {
  const auto shape = value.TypeInfo().GetTensorTypeAndShapeInfo();
  const std::vector<std::int64_t> sizes = shape.GetShape();
  const std::vector<const char*> names = shape.GetSymbolicDimensions();
  std::vector<Dimension> dimensions;
  dimensions.reserve(sizes.size());
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) dimensions.push_back({sizes[axis], names[axis]});
  return dimensions;
}

/// The 1.23 interface gives rank 0 for a scalar and for a value of unknown rank alike: only a constant is sure.
bool has_known_rank(const Ort::ConstValueInfo& value, const std::vector<Dimension>& dimensions) {
  return !dimensions.empty() || value.IsConstantInitializer();
}

bool is_single_element(const std::vector<Dimension>& dimensions) {
  return std::ranges::all_of(dimensions, [](const Dimension& dimension) { return dimension.size == 1; });
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? "," : "") + std::to_string(size);
  return text + "]";
}

bool is_scalar_beside(const std::vector<std::int64_t>& scalar, const std::vector<std::int64_t>& other) {
  return scalar.size() <= other.size() && std::ranges::all_of(scalar, [](std::int64_t size) { return size == 1; });
}

}  // namespace

bool can_multiply(const Ort::ConstNode& node) {
  const std::string domain = node.GetDomain();
  if (node.GetOperatorType() != "Mul" || !(domain.empty() || domain == "ai.onnx")) return false;
  const std::vector<Ort::ConstValueInfo> inputs = node.GetInputs();
  if (inputs.size() != 2 || !std::ranges::all_of(inputs, is_float_tensor)) return false;
  const std::vector<Dimension> left = stated_dimensions(inputs[0]);
  const std::vector<Dimension> right = stated_dimensions(inputs[1]);
  if (!has_known_rank(inputs[0], left) || !has_known_rank(inputs[1], right)) return false;
  if (std::ranges::equal(left, right, same)) return true;
  return (is_single_element(left) && left.size() <= right.size()) ||
         (is_single_element(right) && right.size() <= left.size());
}

void multiply(OrtKernelContext* context, std::size_t left_input, std::size_t right_input) {
  const Ort::KernelContext kernel(context);
  const Ort::ConstValue left = kernel.GetInput(left_input);
  const Ort::ConstValue right = kernel.GetInput(right_input);
  const std::vector<std::int64_t> left_shape = left.GetTensorTypeAndShapeInfo().GetShape();
  const std::vector<std::int64_t> right_shape = right.GetTensorTypeAndShapeInfo().GetShape();
  const auto* a = left.GetTensorData<float>();
  const auto* b = right.GetTensorData<float>();
  const auto output_of = [&kernel](const std::vector<std::int64_t>& shape) {
    return kernel.GetOutput(0, shape.data(), shape.size()).GetTensorMutableData<float>();
  };
  const auto left_count = static_cast<std::ptrdiff_t>(left.GetTensorTypeAndShapeInfo().GetElementCount());
  const auto right_count = static_cast<std::ptrdiff_t>(right.GetTensorTypeAndShapeInfo().GetElementCount());
  if (left_shape == right_shape) {
    std::transform(a, a + left_count, b, output_of(left_shape), std::multiplies<>());
  } else if (is_scalar_beside(right_shape, left_shape)) {
    std::transform(a, a + left_count, output_of(left_shape), [scalar = *b](float value) { return value * scalar; });
  } else if (is_scalar_beside(left_shape, right_shape)) {
    std::transform(b, b + right_count, output_of(right_shape), [scalar = *a](float value) { return scalar * value; });
  } else {
    throw Ort::Exception("GpuxExampleExecutionProvider multiplies equal shapes, or one by a scalar; got " +
                             text_of(left_shape) + " and " + text_of(right_shape),
                         ORT_INVALID_ARGUMENT);
  }
}

}  // namespace gpux_example
