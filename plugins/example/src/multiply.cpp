#include "multiply.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "memory.h"

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

/// A value's elements, wherever they lie: what a node of the host has computed reaches a fused node in the host's
/// memory, since ONNX Runtime 1.31 gives the copy that it puts between them no device.
class Elements {
 public:
  template <typename Value>
  explicit Elements(const Value& value)
      : first_(const_cast<float*>(value.template GetTensorData<float>())), on_device_(is_on_device(value)) {
    // ONNX Runtime hands on what an allocator could not give.
    if (first_ == nullptr) fail_for_memory(value.GetTensorSizeInBytes());
  }

  [[nodiscard]] float get(std::size_t index) const { return on_device_ ? load(first_ + index) : first_[index]; }

  void set(std::size_t index, float value) {
    if (on_device_) {
      store(value, first_ + index);
    } else {
      first_[index] = value;
    }
  }

 private:
  float* first_;
  bool on_device_;
};

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
  const bool same_shape = left_shape == right_shape;
  if (!same_shape && !is_scalar_beside(right_shape, left_shape) && !is_scalar_beside(left_shape, right_shape)) {
    throw Ort::Exception("GpuxExampleExecutionProvider multiplies equal shapes, or one by a scalar; got " +
                             text_of(left_shape) + " and " + text_of(right_shape),
                         ORT_INVALID_ARGUMENT);
  }
  const bool left_is_scalar = !same_shape && is_scalar_beside(left_shape, right_shape);
  const bool right_is_scalar = !same_shape && !left_is_scalar;
  const std::vector<std::int64_t>& shape = left_is_scalar ? right_shape : left_shape;
  const Ort::UnownedValue output = kernel.GetOutput(0, shape.data(), shape.size());
  const std::size_t count = output.GetTensorTypeAndShapeInfo().GetElementCount();
  if (count == 0) return;
  const Elements a(left);
  const Elements b(right);
  Elements product(output);
  for (std::size_t index = 0; index < count; ++index) {
    product.set(index, a.get(left_is_scalar ? 0 : index) * b.get(right_is_scalar ? 0 : index));
  }
}

}  // namespace gpux_example
