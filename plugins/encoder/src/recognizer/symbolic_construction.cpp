// Operators that construct tensors: ConstantOfShape, Range, CumSum, Concat, Trilu, outer
// products.
#include <algorithm>

#include "recognizer/symbolic_operators.h"

namespace gpux_cpu::encoder::symbolic {

std::optional<SymbolicTensor> constant_of_shape(const Node& node, const Inputs& inputs) {
  const auto shape = dimensions_of(*inputs[0]);
  if (!shape) return std::nullopt;
  const auto value = node.attributes.find("value");
  if (value == node.attributes.end())
    return SymbolicTensor{*shape, ElementType::float32, literal(0, ElementType::float32)};
  const ElementType element_type = value->second.element_type;
  if (!is_computed(element_type)) return std::nullopt;
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
  if (!axis || inputs.size() > max_elements_of_a_list) return std::nullopt;
  if (inputs.size() == 1) return *inputs[0];
  SymbolicTensor result{inputs[0]->shape, inputs[0]->element_type, nullptr};
  std::vector<std::int64_t> starts{0};
  for (const SymbolicTensor* one : inputs) {
    if (one == nullptr || one->shape.size() != result.shape.size()) return std::nullopt;
    const Dimension& size = one->shape[*axis];
    if (size.kind != Dimension::Kind::fixed) return std::nullopt;
    for (std::size_t other = 0; other < result.shape.size(); ++other) {
      if (other != *axis && one->shape[other] != result.shape[other]) return std::nullopt;
    }
    starts.push_back(starts.back() + size.value);
  }
  result.shape[*axis] = fixed(starts.back());
  for (std::size_t i = inputs.size(); i-- > 0;) {
    if (starts[i] == starts[i + 1]) continue;
    std::vector<ExpressionPointer> of_one = axis_indices(result.shape.size());
    of_one[*axis] = starts[i + 1] - starts[i] == 1
                        ? literal(0, ElementType::int64)
                        : apply(Operation::subtract, ElementType::int64,
                                {axis_index(*axis), literal(static_cast<double>(starts[i]), ElementType::int64)});
    const ExpressionPointer part = substitute(inputs[i]->expression, of_one);
    if (result.expression == nullptr) {
      result.expression = part;
      continue;
    }
    const ExpressionPointer is_here =
        apply(Operation::less, ElementType::boolean,
              {axis_index(*axis), literal(static_cast<double>(starts[i + 1]), ElementType::int64)});
    result.expression = apply(Operation::where, result.element_type, {is_here, part, result.expression});
  }
  if (result.expression == nullptr) return std::nullopt;
  return result;
}

// The elements on one side of a diagonal; the others are 0.
std::optional<SymbolicTensor> trilu(const Node& node, const Inputs& inputs) {
  const SymbolicTensor& data = *inputs[0];
  const SymbolicTensor* given = input(inputs, 1);
  const auto diagonal = given == nullptr ? std::optional(0.0) : scalar_of(*given);
  const std::size_t rank = data.shape.size();
  if (!diagonal || rank < 2) return std::nullopt;
  // column - row >= diagonal, or <=.
  const ExpressionPointer shifted =
      apply(Operation::add, ElementType::int64, {axis_index(rank - 2), literal(*diagonal, ElementType::int64)});
  const ExpressionPointer column = axis_index(rank - 1);
  const bool is_upper = integer(node, "upper", 1) != 0;
  const ExpressionPointer keeps =
      apply(Operation::less_or_equal, ElementType::boolean, {is_upper ? shifted : column, is_upper ? column : shifted});
  return SymbolicTensor{
      data.shape, data.element_type,
      apply(Operation::where, data.element_type, {keeps, data.expression, literal(0, data.element_type)})};
}

// A matrix product over one element.
std::optional<SymbolicTensor> outer_product(const Node& /*node*/, const Inputs& inputs) {
  if (inputs.size() != 2 || inputs[1] == nullptr) return std::nullopt;
  const SymbolicTensor &a = *inputs[0], &b = *inputs[1];
  if (a.shape.size() < 2 || b.shape.size() < 2 || !is_one(a.shape.back()) || !is_one(b.shape[b.shape.size() - 2]))
    return std::nullopt;
  const auto shape = broadcast(a.shape, b.shape);
  if (!shape) return std::nullopt;
  return SymbolicTensor{
      *shape, a.element_type,
      apply(Operation::multiply, a.element_type, {broadcast_to(a, shape->size()), broadcast_to(b, shape->size())})};
}

// Of two tensors, where each axis is in the output: their outer product.
std::optional<SymbolicTensor> einsum(const Node& node, const Inputs& inputs) {
  const auto given = node.attributes.find("equation");
  if (given == node.attributes.end() || inputs.size() != 2 || inputs[1] == nullptr) return std::nullopt;
  std::string equation = given->second.text;
  std::erase(equation, ' ');
  const std::size_t comma = equation.find(','), arrow = equation.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return std::nullopt;
  const std::string output = equation.substr(arrow + 2);
  SymbolicTensor result{Shape(output.size(), fixed(1)), inputs[0]->element_type, nullptr};
  std::vector<ExpressionPointer> factors;
  for (const std::string& labels : {equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1)}) {
    const SymbolicTensor& tensor = *inputs[factors.size()];
    if (labels.size() != tensor.shape.size()) return std::nullopt;
    std::vector<ExpressionPointer> indices;
    for (std::size_t axis = 0; axis < labels.size(); ++axis) {
      const std::size_t at = output.find(labels[axis]);
      const bool is_repeated = labels.find(labels[axis]) != axis;
      if (at == std::string::npos || is_repeated) return std::nullopt;
      if (!is_one(result.shape[at]) && result.shape[at] != tensor.shape[axis]) return std::nullopt;
      result.shape[at] = tensor.shape[axis];
      indices.push_back(axis_index(at));
    }
    factors.push_back(substitute(tensor.expression, indices));
  }
  result.expression = apply(Operation::multiply, result.element_type, std::move(factors));
  return result;
}

}  // namespace gpux_cpu::encoder::symbolic
