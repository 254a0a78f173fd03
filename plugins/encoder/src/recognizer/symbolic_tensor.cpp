#include "recognizer/symbolic_tensor.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "recognizer/symbolic_operators.h"

namespace gpux_cpu::encoder {
namespace symbolic {

bool is_one(const Dimension& size) {
  return size == fixed(1);
}

std::vector<ExpressionPointer> axis_indices(std::size_t rank) {
  std::vector<ExpressionPointer> indices;
  for (std::size_t axis = 0; axis < rank; ++axis) indices.push_back(axis_index(axis));
  return indices;
}

const SymbolicTensor* input(const Inputs& inputs, std::size_t index) {
  return index < inputs.size() ? inputs[index] : nullptr;
}

// Axes, from an input or from the attribute of older versions.
std::optional<std::vector<std::int64_t>> axes_of(const Node& node, const Inputs& inputs, std::size_t index) {
  if (const SymbolicTensor* given = input(inputs, index)) return integers_of(*given);
  const auto attribute = node.attributes.find("axes");
  if (attribute == node.attributes.end()) return std::nullopt;
  return attribute->second.integers;
}

}  // namespace symbolic

namespace {

using symbolic::is_one;

// Graphs that are no encoders may have expressions of any size.
constexpr std::size_t max_node_count = 2000;

}  // namespace

std::int64_t integer(const Node& node, const char* name, std::int64_t otherwise) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() || found->second.integers.empty() ? otherwise : found->second.integers.front();
}

std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  if (axis < -count || axis >= count) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

SymbolicTensor symbolic_tensor_of(const Constant& constant) {
  SymbolicTensor tensor{{}, constant.element_type, nullptr};
  for (const std::int64_t size : constant.shape) tensor.shape.push_back(fixed(size));
  const bool is_whole = constant.element_type != ElementType::float32 && is_computed(constant.element_type);
  const auto is_like_first = [&](std::size_t i) { return element_of(constant, i) == element_of(constant, 0); };
  bool is_even = constant.count() == 1;
  if (is_whole && constant.count() > 1) {
    is_even = true;
    for (std::size_t i = 1; i < constant.count() && is_even; ++i) is_even = is_like_first(i);
  }
  if (is_even) {
    tensor.expression = literal(element_of(constant, 0), constant.element_type);
  } else {
    std::vector<ExpressionPointer> indices;
    // An axis of size 1 is broadcast: its index is always 0.
    for (std::size_t axis = 0; axis < constant.shape.size(); ++axis) {
      indices.push_back(constant.shape[axis] == 1 ? literal(0, ElementType::int64) : axis_index(axis));
    }
    tensor.expression = table_element(constant, std::move(indices));
  }
  return tensor;
}

SymbolicTensor symbolic_tensor_of(const Shape& sizes) {
  SymbolicTensor tensor{
      {fixed(static_cast<std::int64_t>(sizes.size()))}, ElementType::int64, literal(0, ElementType::int64)};
  if (sizes.empty()) return tensor;
  tensor.expression = dimension_value(sizes.back());
  for (std::size_t i = sizes.size() - 1; i-- > 0;) {
    const ExpressionPointer is_here = apply(Operation::equal, ElementType::boolean,
                                            {axis_index(0), literal(static_cast<double>(i), ElementType::int64)});
    tensor.expression =
        apply(Operation::where, ElementType::int64, {is_here, dimension_value(sizes[i]), tensor.expression});
  }
  return tensor;
}

std::optional<double> scalar_of(const SymbolicTensor& tensor) {
  if (!std::ranges::all_of(tensor.shape, is_one)) return std::nullopt;
  return literal_value(substitute(tensor.expression, std::vector(tensor.shape.size(), literal(0, ElementType::int64))));
}

std::optional<Shape> dimensions_of(const SymbolicTensor& tensor) {
  if (tensor.shape.size() > 1 || tensor.element_type == ElementType::float32) return std::nullopt;
  const Dimension count = tensor.shape.empty() ? fixed(1) : tensor.shape[0];
  if (count.kind != Dimension::Kind::fixed || count.value > symbolic::max_elements_of_a_list) return std::nullopt;
  Shape sizes;
  for (std::int64_t i = 0; i < count.value; ++i) {
    const auto size =
        dimension_of(substitute(tensor.expression, {literal(static_cast<double>(i), ElementType::int64)}));
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

std::optional<std::vector<std::int64_t>> integers_of(const SymbolicTensor& tensor) {
  const auto sizes = dimensions_of(tensor);
  if (!sizes) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const Dimension& size : *sizes) {
    if (size.kind != Dimension::Kind::fixed) return std::nullopt;
    numbers.push_back(size.value);
  }
  return numbers;
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape both;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const auto of = [&](const Shape& shape) {
      return axis + shape.size() < rank ? fixed(1) : shape[axis + shape.size() - rank];
    };
    const Dimension left = of(a), right = of(b);
    if (left != right && !is_one(left) && !is_one(right)) return std::nullopt;
    both.push_back(is_one(left) ? right : left);
  }
  return both;
}

ExpressionPointer broadcast_to(const SymbolicTensor& tensor, std::size_t rank) {
  std::vector<ExpressionPointer> indices;
  const std::size_t ahead = rank - tensor.shape.size();
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    indices.push_back(is_one(tensor.shape[axis]) ? literal(0, ElementType::int64) : axis_index(ahead + axis));
  }
  return substitute(tensor.expression, indices);
}

std::optional<SymbolicTensor> symbolic_tensor_of(const Node& node, const std::vector<const SymbolicTensor*>& inputs) {
  using namespace symbolic;
  using Reader = std::optional<SymbolicTensor> (*)(const Node&, const Inputs&);
  static const std::map<std::string_view, Reader> readers{{"Where", where},
                                                          {"Cast", cast},
                                                          {"Clip", clip},
                                                          {"Gather", gather},
                                                          {"GatherElements", gather_elements},
                                                          {"GatherND", gather_nd},
                                                          {"Slice", slice},
                                                          {"Concat", concat},
                                                          {"Unsqueeze", unsqueeze},
                                                          {"Squeeze", squeeze},
                                                          {"Transpose", transpose},
                                                          {"Expand", expand},
                                                          {"Reshape", reshape},
                                                          {"Flatten", flatten},
                                                          {"ConstantOfShape", constant_of_shape},
                                                          {"Range", range},
                                                          {"Relu", relu},
                                                          {"Tile", tile},
                                                          {"Trilu", trilu},
                                                          {"MatMul", outer_product},
                                                          {"Einsum", einsum},
                                                          {"CumSum", cumsum},
                                                          {"Greater", swapped_comparison},
                                                          {"GreaterOrEqual", swapped_comparison}};
  if ((!node.domain.empty() && node.domain != "ai.onnx") || inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  const auto reader = readers.find(node.type);
  const bool wants_two = node.type.starts_with("Gather");
  if (wants_two && (inputs.size() != 2 || inputs[1] == nullptr)) return std::nullopt;
  auto result = reader == readers.end() ? elementwise(node, inputs) : reader->second(node, inputs);
  return result && result->expression->node_count <= max_node_count ? result : std::nullopt;
}

}  // namespace gpux_cpu::encoder
