// Elementwise operators.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "recognizer/symbolic_operators.h"

namespace gpux_cpu::encoder::symbolic {
namespace {

std::optional<SymbolicTensor> broadcast_apply(Operation operation, ElementType element_type, const Inputs& inputs) {
  std::optional<Shape> shape = Shape{};
  for (const SymbolicTensor* one : inputs) {
    if (one == nullptr) return std::nullopt;
    shape = broadcast(*shape, one->shape);
    if (!shape) return std::nullopt;
  }
  std::vector<ExpressionPointer> arguments;
  for (const SymbolicTensor* one : inputs) arguments.push_back(broadcast_to(*one, shape->size()));
  return SymbolicTensor{*shape, element_type, apply(operation, element_type, std::move(arguments))};
}

std::optional<ElementType> element_type_of_onnx(std::int64_t type) {
  switch (type) {
    case 1:
      return ElementType::float32;
    case 6:
      return ElementType::int32;
    case 7:
      return ElementType::int64;
    case 9:
      return ElementType::boolean;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<SymbolicTensor> elementwise(const Node& node, const Inputs& inputs) {
  struct Row {
    std::string_view type;
    Operation operation;
    std::size_t count;  // of inputs; 0: any number, combined in pairs
    bool is_boolean;    // the result
  };

  static constexpr std::array rows{
      Row{"Add", Operation::add, 2, false},           Row{"Sub", Operation::subtract, 2, false},
      Row{"Mul", Operation::multiply, 2, false},      Row{"Div", Operation::divide, 2, false},
      Row{"Pow", Operation::power, 2, false},         Row{"Min", Operation::minimum, 0, false},
      Row{"Max", Operation::maximum, 0, false},       Row{"Equal", Operation::equal, 2, true},
      Row{"Less", Operation::less, 2, true},          Row{"LessOrEqual", Operation::less_or_equal, 2, true},
      Row{"And", Operation::logical_and, 2, true},    Row{"Or", Operation::logical_or, 2, true},
      Row{"Not", Operation::logical_not, 1, true},    Row{"Neg", Operation::negate, 1, false},
      Row{"Abs", Operation::absolute, 1, false},      Row{"Log", Operation::log, 1, false},
      Row{"Sqrt", Operation::sqrt, 1, false},         Row{"Reciprocal", Operation::reciprocal, 1, false},
      Row{"Erf", Operation::erf, 1, false},           Row{"Tanh", Operation::tanh, 1, false},
      Row{"Sigmoid", Operation::sigmoid, 1, false},   Row{"Floor", Operation::floor, 1, false},
      Row{"Ceil", Operation::ceil, 1, false},         Row{"Round", Operation::round, 1, false},
      Row{"Sign", Operation::sign, 1, false},         Row{"Exp", Operation::exp, 1, false},
      Row{"Softplus", Operation::softplus, 1, false}, Row{"Cos", Operation::cosine, 1, false},
      Row{"Sin", Operation::sine, 1, false},          Row{"IsNaN", Operation::is_nan, 1, true}};
  const auto row = std::ranges::find(rows, std::string_view(node.type), &Row::type);
  if (row == rows.end() || inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  if (row->count != 0 && row->count != inputs.size()) return std::nullopt;
  const ElementType element_type = row->is_boolean ? ElementType::boolean : inputs[0]->element_type;
  if (row->count != 0) return broadcast_apply(row->operation, element_type, inputs);
  std::optional<SymbolicTensor> all = *inputs[0];
  for (std::size_t i = 1; i < inputs.size() && all; ++i) {
    const SymbolicTensor so_far = *all;
    all = broadcast_apply(row->operation, element_type, {&so_far, inputs[i]});
  }
  return all;
}

std::optional<SymbolicTensor> relu(const Node& /*node*/, const Inputs& inputs) {
  const SymbolicTensor zero{{}, inputs[0]->element_type, literal(0, inputs[0]->element_type)};
  return inputs.size() == 1 ? broadcast_apply(Operation::maximum, zero.element_type, {inputs[0], &zero}) : std::nullopt;
}

std::optional<SymbolicTensor> swapped_comparison(const Node& node, const Inputs& inputs) {
  if (inputs.size() != 2 || (node.type != "Greater" && node.type != "GreaterOrEqual")) return std::nullopt;
  const Operation operation = node.type == "Greater" ? Operation::less : Operation::less_or_equal;
  return broadcast_apply(operation, ElementType::boolean, {inputs[1], inputs[0]});
}

std::optional<SymbolicTensor> where(const Node& /*node*/, const Inputs& inputs) {
  if (inputs.size() != 3 || inputs[1] == nullptr) return std::nullopt;
  return broadcast_apply(Operation::where, inputs[1]->element_type, inputs);
}

std::optional<SymbolicTensor> cast(const Node& node, const Inputs& inputs) {
  const auto element_type = element_type_of_onnx(integer(node, "to", 0));
  if (!element_type || inputs.size() != 1) return std::nullopt;
  return broadcast_apply(Operation::cast, *element_type, inputs);
}

// Bounds are inputs, or attributes before version 11.
std::optional<SymbolicTensor> clip(const Node& node, const Inputs& inputs) {
  struct Bound {
    std::size_t index;
    const char* name;
    Operation operation;
  };

  std::optional<SymbolicTensor> all = *inputs[0];
  for (const Bound& bound : {Bound{1, "min", Operation::maximum}, Bound{2, "max", Operation::minimum}}) {
    const auto attribute = node.attributes.find(bound.name);
    std::optional<SymbolicTensor> value;
    if (const SymbolicTensor* given = input(inputs, bound.index)) value = *given;
    if (attribute != node.attributes.end()) {
      value = SymbolicTensor{
          {}, ElementType::float32, literal(static_cast<double>(attribute->second.number), ElementType::float32)};
    }
    if (!value || !all) continue;
    const SymbolicTensor so_far = *all;
    all = broadcast_apply(bound.operation, so_far.element_type, {&so_far, &*value});
  }
  return all;
}

}  // namespace gpux_cpu::encoder::symbolic
