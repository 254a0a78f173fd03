// Operators that work element by element.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "recognizer/symbolic_operators.h"

namespace gpux_encoder::symbolic {
namespace {

std::optional<Field> spread(Operation operation, Element element, const Inputs& inputs) {
  std::optional<Shape> shape = Shape{};
  for (const Field* one : inputs) {
    if (one == nullptr) return std::nullopt;
    shape = broadcast(*shape, one->shape);
    if (!shape) return std::nullopt;
  }
  std::vector<ExpressionPointer> arguments;
  for (const Field* one : inputs) arguments.push_back(seen_from(*one, shape->size()));
  return Field{*shape, element, apply(operation, element, std::move(arguments))};
}

std::optional<Element> element_of_onnx(std::int64_t type) {
  switch (type) {
    case 1:
      return Element::float32;
    case 6:
      return Element::int32;
    case 7:
      return Element::int64;
    case 9:
      return Element::boolean;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Field> elementwise(const Node& node, const Inputs& inputs) {
  struct Row {
    std::string_view type;
    Operation operation;
    std::size_t count;  // of inputs; 0: any, two by two
    bool is_truth;      // comes out
  };

  static constexpr std::array rows{Row{"Add", Operation::add, 2, false},
                                   Row{"Sub", Operation::subtract, 2, false},
                                   Row{"Mul", Operation::multiply, 2, false},
                                   Row{"Div", Operation::divide, 2, false},
                                   Row{"Pow", Operation::power, 2, false},
                                   Row{"Min", Operation::least, 0, false},
                                   Row{"Max", Operation::greatest, 0, false},
                                   Row{"Equal", Operation::equal, 2, true},
                                   Row{"Less", Operation::less, 2, true},
                                   Row{"LessOrEqual", Operation::less_or_equal, 2, true},
                                   Row{"And", Operation::both, 2, true},
                                   Row{"Or", Operation::either, 2, true},
                                   Row{"Not", Operation::negate, 1, true},
                                   Row{"Neg", Operation::minus, 1, false},
                                   Row{"Abs", Operation::magnitude, 1, false},
                                   Row{"Log", Operation::logarithm, 1, false},
                                   Row{"Sqrt", Operation::square_root, 1, false},
                                   Row{"Reciprocal", Operation::reciprocal, 1, false},
                                   Row{"Erf", Operation::error_function, 1, false},
                                   Row{"Tanh", Operation::tangent, 1, false},
                                   Row{"Sigmoid", Operation::sigmoid, 1, false},
                                   Row{"Floor", Operation::floor, 1, false},
                                   Row{"IsNaN", Operation::is_nan, 1, true}};
  const auto row = std::ranges::find(rows, std::string_view(node.type), &Row::type);
  if (row == rows.end() || inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  if (row->count != 0 && row->count != inputs.size()) return std::nullopt;
  const Element element = row->is_truth ? Element::boolean : inputs[0]->element;
  if (row->count != 0) return spread(row->operation, element, inputs);
  std::optional<Field> all = *inputs[0];
  for (std::size_t i = 1; i < inputs.size() && all; ++i) {
    const Field so_far = *all;
    all = spread(row->operation, element, {&so_far, inputs[i]});
  }
  return all;
}

std::optional<Field> turned_comparison(const Node& node, const Inputs& inputs) {
  if (inputs.size() != 2 || (node.type != "Greater" && node.type != "GreaterOrEqual")) return std::nullopt;
  const Operation operation = node.type == "Greater" ? Operation::less : Operation::less_or_equal;
  return spread(operation, Element::boolean, {inputs[1], inputs[0]});
}

std::optional<Field> where(const Node& /*node*/, const Inputs& inputs) {
  if (inputs.size() != 3 || inputs[1] == nullptr) return std::nullopt;
  return spread(Operation::where, inputs[1]->element, inputs);
}

std::optional<Field> cast(const Node& node, const Inputs& inputs) {
  const auto element = element_of_onnx(integer(node, "to", 0));
  if (!element || inputs.size() != 1) return std::nullopt;
  return spread(Operation::cast, *element, inputs);
}

// Bounds are inputs, or attributes before version 11.
std::optional<Field> clip(const Node& node, const Inputs& inputs) {
  struct Bound {
    std::size_t index;
    const char* name;
    Operation operation;
  };

  std::optional<Field> all = *inputs[0];
  for (const Bound& bound : {Bound{1, "min", Operation::greatest}, Bound{2, "max", Operation::least}}) {
    const auto attribute = node.attributes.find(bound.name);
    std::optional<Field> value;
    if (const Field* given = input(inputs, bound.index)) value = *given;
    if (attribute != node.attributes.end()) {
      value = Field{{}, Element::float32, number(static_cast<double>(attribute->second.number), Element::float32)};
    }
    if (!value || !all) continue;
    const Field so_far = *all;
    all = spread(bound.operation, so_far.element, {&so_far, &*value});
  }
  return all;
}

}  // namespace gpux_encoder::symbolic
