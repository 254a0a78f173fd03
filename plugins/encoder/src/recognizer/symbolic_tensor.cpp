#include "recognizer/symbolic_tensor.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "recognizer/symbolic_operators.h"

namespace gpux_encoder {
namespace symbolic {

Size number_size(std::int64_t number) {
  return {Size::Kind::number, number};
}

bool is_one(const Size& size) {
  return size == number_size(1);
}

std::vector<ExpressionPointer> places_of(std::size_t rank) {
  std::vector<ExpressionPointer> places;
  for (std::size_t axis = 0; axis < rank; ++axis) places.push_back(place(axis));
  return places;
}

const Field* input(const Inputs& inputs, std::size_t index) {
  return index < inputs.size() ? inputs[index] : nullptr;
}

// Axes, from an input or from the attribute of older versions.
std::optional<std::vector<std::int64_t>> axes_of(const Node& node, const Inputs& inputs, std::size_t index) {
  if (const Field* given = input(inputs, index)) return numbers_of(*given);
  const auto attribute = node.attributes.find("axes");
  if (attribute == node.attributes.end()) return std::nullopt;
  return attribute->second.integers;
}

}  // namespace symbolic

namespace {

using symbolic::is_one;
using symbolic::number_size;

// Graphs that are no encoders may reckon with shapes at any length.
constexpr std::size_t max_parts = 2000;

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

Field field_of(const Constant& constant) {
  Field field{{}, constant.element, nullptr};
  for (const std::int64_t size : constant.shape) field.shape.push_back(number_size(size));
  const bool is_whole = constant.element != Element::float32 && constant.element != Element::other;
  const auto is_like_first = [&](std::size_t i) { return element_of(constant, i) == element_of(constant, 0); };
  bool is_even = constant.count() == 1;
  if (is_whole && constant.count() > 1) {
    is_even = true;
    for (std::size_t i = 1; i < constant.count() && is_even; ++i) is_even = is_like_first(i);
  }
  if (is_even) {
    field.at = number(element_of(constant, 0), constant.element);
  } else {
    std::vector<ExpressionPointer> places;
    // What has one place is spread over many: always at its only one.
    for (std::size_t axis = 0; axis < constant.shape.size(); ++axis) {
      places.push_back(constant.shape[axis] == 1 ? number(0, Element::int64) : place(axis));
    }
    field.at = table_at(constant, std::move(places));
  }
  return field;
}

Field field_of(const Shape& sizes) {
  Field field{{number_size(static_cast<std::int64_t>(sizes.size()))}, Element::int64, number(0, Element::int64)};
  if (sizes.empty()) return field;
  field.at = size_of_batch(sizes.back());
  for (std::size_t i = sizes.size() - 1; i-- > 0;) {
    const ExpressionPointer is_here =
        apply(Operation::equal, Element::boolean, {place(0), number(static_cast<double>(i), Element::int64)});
    field.at = apply(Operation::where, Element::int64, {is_here, size_of_batch(sizes[i]), field.at});
  }
  return field;
}

std::optional<double> scalar_of(const Field& field) {
  if (!std::ranges::all_of(field.shape, is_one)) return std::nullopt;
  return number_of(substitute(field.at, std::vector(field.shape.size(), number(0, Element::int64))));
}

std::optional<Shape> sizes_of(const Field& field) {
  if (field.shape.size() > 1 || field.element == Element::float32) return std::nullopt;
  const Size count = field.shape.empty() ? number_size(1) : field.shape[0];
  if (count.kind != Size::Kind::number || count.number > symbolic::max_elements_of_a_list) return std::nullopt;
  Shape sizes;
  for (std::int64_t i = 0; i < count.number; ++i) {
    const auto size = size_of(substitute(field.at, {number(static_cast<double>(i), Element::int64)}));
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

std::optional<std::vector<std::int64_t>> numbers_of(const Field& field) {
  const auto sizes = sizes_of(field);
  if (!sizes) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const Size& size : *sizes) {
    if (size.kind != Size::Kind::number) return std::nullopt;
    numbers.push_back(size.number);
  }
  return numbers;
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape both;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const auto of = [&](const Shape& shape) {
      return axis + shape.size() < rank ? number_size(1) : shape[axis + shape.size() - rank];
    };
    const Size left = of(a), right = of(b);
    if (left != right && !is_one(left) && !is_one(right)) return std::nullopt;
    both.push_back(is_one(left) ? right : left);
  }
  return both;
}

ExpressionPointer seen_from(const Field& field, std::size_t rank) {
  std::vector<ExpressionPointer> places;
  const std::size_t ahead = rank - field.shape.size();
  for (std::size_t axis = 0; axis < field.shape.size(); ++axis) {
    places.push_back(is_one(field.shape[axis]) ? number(0, Element::int64) : place(ahead + axis));
  }
  return substitute(field.at, places);
}

std::optional<Field> field_of(const Node& node, const std::vector<const Field*>& inputs) {
  using namespace symbolic;
  using Reader = std::optional<Field> (*)(const Node&, const Inputs&);
  static const std::map<std::string_view, Reader> readers{{"Where", where},
                                                          {"Cast", cast},
                                                          {"Clip", clip},
                                                          {"Gather", gather},
                                                          {"GatherElements", gather_elements},
                                                          {"GatherND", gather_places},
                                                          {"Slice", slice},
                                                          {"Concat", concat},
                                                          {"Unsqueeze", unsqueeze},
                                                          {"Squeeze", squeeze},
                                                          {"Transpose", transpose},
                                                          {"Expand", expand},
                                                          {"Reshape", reshape},
                                                          {"Flatten", flatten},
                                                          {"ConstantOfShape", same_everywhere},
                                                          {"Range", range},
                                                          {"CumSum", cumulate},
                                                          {"Greater", turned_comparison},
                                                          {"GreaterOrEqual", turned_comparison}};
  if ((!node.domain.empty() && node.domain != "ai.onnx") || inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  const auto reader = readers.find(node.type);
  const bool wants_two = node.type.starts_with("Gather");
  if (wants_two && (inputs.size() != 2 || inputs[1] == nullptr)) return std::nullopt;
  auto made = reader == readers.end() ? elementwise(node, inputs) : reader->second(node, inputs);
  return made && made->at->parts <= max_parts ? made : std::nullopt;
}

}  // namespace gpux_encoder
