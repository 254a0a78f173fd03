// Operators that construct tensors: ConstantOfShape, Range, CumSum, Concat.
#include <algorithm>

#include "recognizer/symbolic_operators.h"

namespace gpux_encoder::symbolic {

std::optional<SymbolicTensor> constant_of_shape(const Node& node, const Inputs& inputs) {
  const auto shape = dimensions_of(*inputs[0]);
  if (!shape) return std::nullopt;
  const auto value = node.attributes.find("value");
  if (value == node.attributes.end())
    return SymbolicTensor{*shape, ElementType::float32, literal(0, ElementType::float32)};
  const ElementType element_type = value->second.element_type;
  if (element_type == ElementType::other) return std::nullopt;
  return SymbolicTensor{*shape, element_type, literal(static_cast<double>(value->second.number), element_type)};
}

std::optional<SymbolicTensor> range(const Node& /*node*/, const Inputs& inputs) {
  if (inputs.size() != 3 || inputs[1] == nullptr || inputs[2] == nullptr || !inputs[1]->shape.empty()) {
    return std::nullopt;
  }
  const auto start = scalar_of(*inputs[0]), step = scalar_of(*inputs[2]);
  const auto limit = dimension_of(inputs[1]->expression);
  if (!start || step != 1.0 || !limit || inputs[0]->element_type == ElementType::float32) return std::nullopt;
  Dimension size = *limit;
  if (size.kind == Dimension::Kind::fixed) {
    size.value = std::max<std::int64_t>(size.value - static_cast<std::int64_t>(*start), 0);
  } else if (*start != 0) {
    return std::nullopt;
  }
  return SymbolicTensor{
      {size},
      inputs[0]->element_type,
      apply(Operation::add, ElementType::int64, {axis_index(0), literal(*start, ElementType::int64)})};
}

std::optional<SymbolicTensor> cumsum(const Node& node, const Inputs& inputs) {
  const SymbolicTensor& data = *inputs[0];
  const bool is_plain = integer(node, "exclusive", 0) == 0 && integer(node, "reverse", 0) == 0;
  if (!is_plain || data.shape.size() != 2 || input(inputs, 1) == nullptr || data.element_type == ElementType::float32) {
    return std::nullopt;
  }
  const auto along = scalar_of(*inputs[1]);
  if (!along || (*along != 1 && *along != -1)) return std::nullopt;
  return SymbolicTensor{data.shape, data.element_type, cumulative_sum(data.expression, axis_index(0), axis_index(1))};
}

std::optional<SymbolicTensor> concat(const Node& node, const Inputs& inputs) {
  const auto axis = axis_of(integer(node, "axis", 0), inputs[0]->shape.size());
  if (!axis) return std::nullopt;
  SymbolicTensor result{inputs[0]->shape, inputs[0]->element_type, nullptr};
  std::vector<ExpressionPointer> slots;
  for (const SymbolicTensor* one : inputs) {
    if (one == nullptr || one->shape.size() != result.shape.size()) return std::nullopt;
    const Dimension& size = one->shape[*axis];
    if (size.kind != Dimension::Kind::fixed || size.value > max_elements_of_a_list) return std::nullopt;
    for (std::size_t other = 0; other < result.shape.size(); ++other) {
      if (other != *axis && one->shape[other] != result.shape[other]) return std::nullopt;
    }
    for (std::int64_t i = 0; i < size.value; ++i) {
      std::vector<ExpressionPointer> of_one = axis_indices(result.shape.size());
      of_one[*axis] = literal(static_cast<double>(i), ElementType::int64);
      slots.push_back(substitute(one->expression, of_one));
    }
  }
  if (slots.empty()) return std::nullopt;
  result.shape[*axis] = fixed(static_cast<std::int64_t>(slots.size()));
  result.expression = slots.back();
  for (std::size_t i = slots.size() - 1; i-- > 0;) {
    const ExpressionPointer is_here = apply(Operation::equal, ElementType::boolean,
                                            {axis_index(*axis), literal(static_cast<double>(i), ElementType::int64)});
    result.expression = apply(Operation::where, result.element_type, {is_here, slots[i], result.expression});
  }
  return result;
}

}  // namespace gpux_encoder::symbolic
