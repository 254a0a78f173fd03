// Operators that make tensors of numbers, sizes and lists.
#include <algorithm>

#include "recognizer/symbolic_operators.h"

namespace gpux_encoder::symbolic {

std::optional<Field> same_everywhere(const Node& node, const Inputs& inputs) {
  const auto shape = sizes_of(*inputs[0]);
  if (!shape) return std::nullopt;
  const auto value = node.attributes.find("value");
  if (value == node.attributes.end()) return Field{*shape, Element::float32, number(0, Element::float32)};
  const Element element = value->second.element;
  if (element == Element::other) return std::nullopt;
  return Field{*shape, element, number(static_cast<double>(value->second.number), element)};
}

std::optional<Field> range(const Node& /*node*/, const Inputs& inputs) {
  if (inputs.size() != 3 || inputs[1] == nullptr || inputs[2] == nullptr || !inputs[1]->shape.empty()) {
    return std::nullopt;
  }
  const auto start = scalar_of(*inputs[0]), step = scalar_of(*inputs[2]);
  const auto limit = size_of(inputs[1]->at);
  if (!start || step != 1.0 || !limit || inputs[0]->element == Element::float32) return std::nullopt;
  Size size = *limit;
  if (size.kind == Size::Kind::number) {
    size.number = std::max<std::int64_t>(size.number - static_cast<std::int64_t>(*start), 0);
  } else if (*start != 0) {
    return std::nullopt;
  }
  return Field{
      {size}, inputs[0]->element, apply(Operation::add, Element::int64, {place(0), number(*start, Element::int64)})};
}

std::optional<Field> cumulate(const Node& node, const Inputs& inputs) {
  const Field& data = *inputs[0];
  const bool is_plain = integer(node, "exclusive", 0) == 0 && integer(node, "reverse", 0) == 0;
  if (!is_plain || data.shape.size() != 2 || input(inputs, 1) == nullptr || data.element == Element::float32) {
    return std::nullopt;
  }
  const auto along = scalar_of(*inputs[1]);
  if (!along || (*along != 1 && *along != -1)) return std::nullopt;
  return Field{data.shape, data.element, count_up(data.at, place(0), place(1))};
}

std::optional<Field> concat(const Node& node, const Inputs& inputs) {
  const auto axis = axis_of(integer(node, "axis", 0), inputs[0]->shape.size());
  if (!axis) return std::nullopt;
  Field made{inputs[0]->shape, inputs[0]->element, nullptr};
  std::vector<ExpressionPointer> slots;
  for (const Field* one : inputs) {
    if (one == nullptr || one->shape.size() != made.shape.size()) return std::nullopt;
    const Size& size = one->shape[*axis];
    if (size.kind != Size::Kind::number || size.number > max_elements_of_a_list) return std::nullopt;
    for (std::size_t other = 0; other < made.shape.size(); ++other) {
      if (other != *axis && one->shape[other] != made.shape[other]) return std::nullopt;
    }
    for (std::int64_t i = 0; i < size.number; ++i) {
      std::vector<ExpressionPointer> of_one = places_of(made.shape.size());
      of_one[*axis] = number(static_cast<double>(i), Element::int64);
      slots.push_back(substitute(one->at, of_one));
    }
  }
  if (slots.empty()) return std::nullopt;
  made.shape[*axis] = number_size(static_cast<std::int64_t>(slots.size()));
  made.at = slots.back();
  for (std::size_t i = slots.size() - 1; i-- > 0;) {
    const ExpressionPointer is_here =
        apply(Operation::equal, Element::boolean, {place(*axis), number(static_cast<double>(i), Element::int64)});
    made.at = apply(Operation::where, made.element, {is_here, slots[i], made.at});
  }
  return made;
}

}  // namespace gpux_encoder::symbolic
