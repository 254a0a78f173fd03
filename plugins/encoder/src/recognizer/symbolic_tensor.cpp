#include "recognizer/symbolic_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace gpux_encoder {
namespace {

using Inputs = std::vector<const Field*>;

constexpr std::int64_t max_elements_of_a_list = 64;
constexpr std::size_t max_elements_of_a_table = std::size_t{1} << 16;

// Graphs that are no encoders may reckon with shapes at any length.
constexpr std::size_t max_parts = 2000;

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

std::optional<Size> product_of(const Size& a, const Size& b) {
  return size_of(apply(Operation::multiply, Element::int64, {size_of_batch(a), size_of_batch(b)}));
}

std::optional<Size> quotient_of(const Size& product, const Size& factor) {
  using Kind = Size::Kind;
  if (product == factor) return number_size(1);
  if (product.kind == Kind::rows && factor.kind == Kind::sequence) return Size{Kind::batch, 0};
  if (product.kind == Kind::rows && factor.kind == Kind::batch) return Size{Kind::sequence, 0};
  const bool divides = product.kind == Kind::number && factor.kind == Kind::number && factor.number > 0 &&
                       product.number % factor.number == 0;
  return divides ? std::optional(number_size(product.number / factor.number)) : std::nullopt;
}

// A place along an axis of `inner` times something, as the places along the two axes that it was made of.
std::pair<ExpressionPointer, ExpressionPointer> parted(const ExpressionPointer& at, const Size& inner) {
  return {apply(Operation::divide, Element::int64, {at, size_of_batch(inner)}),
          apply(Operation::remainder, Element::int64, {at, size_of_batch(inner)})};
}

// Exporters of fixed sizes calculate indices and keep a table of them: where each is its place along one axis of
// `shape`, or its row over two, that is what stands there.
ExpressionPointer without_table(const ExpressionPointer& index, const Shape& shape) {
  if (index->kind != Expression::Kind::table || index->element == Element::float32) return index;
  const Constant& table = *index->constant;
  std::vector<std::size_t> axes;  // of the table that run
  for (std::size_t axis = 0; axis < table.shape.size(); ++axis) {
    const Expression& at = *index->arguments[axis];
    if (at.kind == Expression::Kind::number) continue;
    const bool is_whole_axis = at.kind == Expression::Kind::place && at.axis < shape.size() &&
                               shape[at.axis] == number_size(table.shape[axis]);
    if (!is_whole_axis || axes.size() == 2) return index;
    axes.push_back(axis);
  }
  if (axes.empty() || table.count() > max_elements_of_a_table) return index;
  const auto size = [&](std::size_t which) { return which < axes.size() ? table.shape[axes[which]] : 1; };
  bool is_first = true, is_second = axes.size() == 2, is_row = is_second;
  std::vector<double> places(shape.size());
  for (std::int64_t first = 0; first < size(0); ++first) {
    for (std::int64_t second = 0; second < size(1); ++second) {
      places[index->arguments[axes[0]]->axis] = static_cast<double>(first);
      if (axes.size() == 2) places[index->arguments[axes[1]]->axis] = static_cast<double>(second);
      const double value = evaluate(*index, places);
      is_first = is_first && value == static_cast<double>(first);
      is_second = is_second && value == static_cast<double>(second);
      is_row = is_row && value == static_cast<double>(first * size(1) + second);
    }
  }
  if (is_first) return index->arguments[axes[0]];
  if (is_second) return index->arguments[axes[1]];
  return is_row ? row_of(index->arguments[axes[0]], number_size(size(1)), index->arguments[axes[1]]) : index;
}

// place * length + place, where the second runs along an axis of that length in `shape`: a row.
ExpressionPointer as_row(const ExpressionPointer& index, const Shape& shape) {
  if (!index->is(Operation::add)) return without_table(index, shape);
  for (const bool is_turned : {false, true}) {
    const ExpressionPointer& scaled = index->arguments[is_turned ? 1 : 0];
    const ExpressionPointer token = without_table(index->arguments[is_turned ? 0 : 1], shape);
    if (!scaled->is(Operation::multiply) || token->kind != Expression::Kind::place || token->axis >= shape.size()) {
      continue;
    }
    const Size& length = shape[token->axis];
    for (const bool is_first : {false, true}) {
      const ExpressionPointer text = without_table(scaled->arguments[is_first ? 1 : 0], shape);
      if (text->kind == Expression::Kind::place && size_of(scaled->arguments[is_first ? 0 : 1]) == length) {
        return row_of(text, length, token);
      }
    }
  }
  return index;
}

// Two axes: what is in front of `axis`, and the rest.
std::optional<Field> flatten(const Node& node, const Inputs& inputs) {
  const Field& data = *inputs[0];
  const auto rank = static_cast<std::int64_t>(data.shape.size());
  const std::int64_t given = integer(node, "axis", 1), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank) return std::nullopt;
  Field made{{number_size(1), number_size(1)}, data.element, nullptr};
  std::vector<ExpressionPointer> of_data(data.shape.size(), number(0, Element::int64));
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    std::vector<std::size_t> axes;
    for (std::int64_t i = side == 0 ? 0 : axis; i < (side == 0 ? axis : rank); ++i) {
      if (!is_one(data.shape[static_cast<std::size_t>(i)])) axes.push_back(static_cast<std::size_t>(i));
    }
    if (axes.empty()) continue;
    if (axes.size() == 1) {
      made.shape[side] = data.shape[axes[0]];
      of_data[axes[0]] = place(side);
      continue;
    }
    const auto size = product_of(data.shape[axes[0]], data.shape[axes[1]]);
    if (axes.size() > 2 || !size) return std::nullopt;
    made.shape[side] = *size;
    std::tie(of_data[axes[0]], of_data[axes[1]]) = parted(place(side), data.shape[axes[1]]);
  }
  made.at = substitute(data.at, of_data);
  return made;
}

std::optional<Field> gather(const Node& node, const Inputs& inputs) {
  const Field &data = *inputs[0], &indices = *inputs[1];
  const auto axis = axis_of(integer(node, "axis", 0), data.shape.size());
  if (!axis) return std::nullopt;
  const std::size_t before = *axis, taken = indices.shape.size();
  Field made{{}, data.element, nullptr};
  made.shape.assign(data.shape.begin(), data.shape.begin() + static_cast<std::ptrdiff_t>(before));
  made.shape.insert(made.shape.end(), indices.shape.begin(), indices.shape.end());
  made.shape.insert(made.shape.end(), data.shape.begin() + static_cast<std::ptrdiff_t>(before) + 1, data.shape.end());
  std::vector<ExpressionPointer> of_indices;
  for (std::size_t i = 0; i < taken; ++i) of_indices.push_back(place(before + i));
  ExpressionPointer index = substitute(indices.at, of_indices);
  if (const auto known = number_of(index); known && *known < 0) {
    if (data.shape[before].kind != Size::Kind::number) return std::nullopt;
    index = number(*known + static_cast<double>(data.shape[before].number), Element::int64);
  }
  index = as_row(index, made.shape);
  std::vector<ExpressionPointer> of_data;
  for (std::size_t i = 0; i < data.shape.size(); ++i) {
    of_data.push_back(i < before ? place(i) : i == before ? index : place(i - 1 + taken));
  }
  // A list of which more than one is taken: its elements have to be known.
  made.at = substitute(data.at, of_data);
  return made;
}

std::optional<Field> gather_elements(const Node& node, const Inputs& inputs) {
  const Field &data = *inputs[0], &indices = *inputs[1];
  const auto axis = axis_of(integer(node, "axis", 0), data.shape.size());
  if (!axis || indices.shape.size() != data.shape.size()) return std::nullopt;
  std::vector<ExpressionPointer> of_data = places_of(data.shape.size());
  of_data[*axis] = indices.at;
  return Field{indices.shape, data.element, substitute(data.at, of_data)};
}

std::optional<Field> gather_places(const Node& node, const Inputs& inputs) {
  const Field &data = *inputs[0], &indices = *inputs[1];
  if (integer(node, "batch_dims", 0) != 0 || indices.shape.empty() ||
      indices.shape.back() != number_size(static_cast<std::int64_t>(data.shape.size()))) {
    return std::nullopt;
  }
  const std::size_t rank = indices.shape.size() - 1;
  const Shape made(indices.shape.begin(), indices.shape.end() - 1);
  std::vector<ExpressionPointer> of_data;
  for (std::size_t i = 0; i < data.shape.size(); ++i) {
    std::vector<ExpressionPointer> of_indices = places_of(rank);
    of_indices.push_back(number(static_cast<double>(i), Element::int64));
    of_data.push_back(without_table(substitute(indices.at, of_indices), made));
  }
  return Field{made, data.element, substitute(data.at, of_data)};
}

// Where a cut of an axis begins and how many it takes. The front of a longer axis of numbers, up to a size of the
// batch, is taken to have that many.
std::optional<std::pair<std::int64_t, Size>> cut(const Size& size, const Size& start, const Size& end) {
  using Kind = Size::Kind;
  if (start.kind != Kind::number) return std::nullopt;
  constexpr std::int64_t far = std::int64_t{1} << 30;
  if (size.kind != Kind::number) {
    const bool is_whole = start.number == 0 && (end == size || (end.kind == Kind::number && end.number > far));
    if (is_whole) return std::pair{std::int64_t{0}, size};
    const bool is_first = start.number == 0 && end == number_size(1);
    return is_first ? std::optional(std::pair{std::int64_t{0}, end}) : std::nullopt;
  }
  const auto bounded = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size.number : at, 0, size.number);
  };
  const std::int64_t first = start.number < -far ? 0 : bounded(start.number);
  if (end.kind != Kind::number) return first == 0 ? std::optional(std::pair{first, end}) : std::nullopt;
  const std::int64_t last = end.number > far ? size.number : bounded(end.number);
  return std::pair{first, number_size(std::max<std::int64_t>(last - first, 0))};
}

std::optional<Field> slice(const Node& /*node*/, const Inputs& inputs) {
  const Field& data = *inputs[0];
  if (inputs.size() < 3 || inputs[1] == nullptr || inputs[2] == nullptr) return std::nullopt;
  const auto starts = sizes_of(*inputs[1]), ends = sizes_of(*inputs[2]);
  if (!starts || !ends || starts->size() != ends->size()) return std::nullopt;
  std::vector<std::int64_t> axes(starts->size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  if (const Field* given = input(inputs, 3)) {
    const auto known = numbers_of(*given);
    if (!known || known->size() != axes.size()) return std::nullopt;
    axes = *known;
  }
  if (const Field* given = input(inputs, 4)) {
    const auto steps = numbers_of(*given);
    if (!steps || std::ranges::any_of(*steps, [](std::int64_t step) { return step != 1; })) return std::nullopt;
  }
  Field made = data;
  std::vector<ExpressionPointer> of_data = places_of(data.shape.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_of(axes[i], data.shape.size());
    if (!axis) return std::nullopt;
    const auto range = cut(made.shape[*axis], (*starts)[i], (*ends)[i]);
    if (!range) return std::nullopt;
    made.shape[*axis] = range->second;
    of_data[*axis] = apply(Operation::add, Element::int64,
                           {place(*axis), number(static_cast<double>(range->first), Element::int64)});
  }
  made.at = substitute(data.at, of_data);
  return made;
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

std::optional<Field> unsqueeze(const Node& node, const Inputs& inputs) {
  const auto axes = axes_of(node, inputs, 1);
  if (!axes) return std::nullopt;
  const std::size_t rank = inputs[0]->shape.size() + axes->size();
  std::vector<bool> is_new(rank);
  for (const std::int64_t one : *axes) {
    const auto axis = axis_of(one, rank);
    if (!axis || is_new[*axis]) return std::nullopt;
    is_new[*axis] = true;
  }
  Field made{{}, inputs[0]->element, nullptr};
  std::vector<ExpressionPointer> of_data;
  for (std::size_t axis = 0, old = 0; axis < rank; ++axis) {
    made.shape.push_back(is_new[axis] ? number_size(1) : inputs[0]->shape[old++]);
    if (!is_new[axis]) of_data.push_back(place(axis));
  }
  made.at = substitute(inputs[0]->at, of_data);
  return made;
}

Field without(const Field& field, const std::vector<bool>& dropped) {
  Field made{{}, field.element, nullptr};
  std::vector<ExpressionPointer> of_data;
  for (std::size_t axis = 0; axis < field.shape.size(); ++axis) {
    of_data.push_back(dropped[axis] ? number(0, Element::int64) : place(made.shape.size()));
    if (!dropped[axis]) made.shape.push_back(field.shape[axis]);
  }
  made.at = substitute(field.at, of_data);
  return made;
}

std::optional<Field> squeeze(const Node& node, const Inputs& inputs) {
  const Field& data = *inputs[0];
  std::vector<bool> dropped(data.shape.size());
  if (const auto axes = axes_of(node, inputs, 1)) {
    for (const std::int64_t one : *axes) {
      const auto axis = axis_of(one, data.shape.size());
      if (!axis || !is_one(data.shape[*axis])) return std::nullopt;
      dropped[*axis] = true;
    }
  } else {
    // A size of the batch may be 1, too.
    for (std::size_t axis = 0; axis < dropped.size(); ++axis) {
      if (data.shape[axis].kind != Size::Kind::number) return std::nullopt;
      dropped[axis] = is_one(data.shape[axis]);
    }
  }
  return without(data, dropped);
}

std::optional<Field> transpose(const Node& node, const Inputs& inputs) {
  const Field& data = *inputs[0];
  const auto given = node.attributes.find("perm");
  const std::size_t rank = data.shape.size();
  Field made{{}, data.element, nullptr};
  std::vector<ExpressionPointer> of_data(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const auto from =
        given == node.attributes.end()
            ? std::optional(rank - 1 - axis)
            : (axis < given->second.integers.size() ? axis_of(given->second.integers[axis], rank) : std::nullopt);
    if (!from) return std::nullopt;
    of_data[*from] = place(axis);
    made.shape.push_back(data.shape[*from]);
  }
  if (std::ranges::find(of_data, nullptr) != of_data.end()) return std::nullopt;
  made.at = substitute(data.at, of_data);
  return made;
}

std::optional<Field> expand(const Node& /*node*/, const Inputs& inputs) {
  if (inputs.size() != 2 || inputs[1] == nullptr) return std::nullopt;
  const auto wanted = sizes_of(*inputs[1]);
  const auto shape = wanted ? broadcast(inputs[0]->shape, *wanted) : std::nullopt;
  if (!shape) return std::nullopt;
  return Field{*shape, inputs[0]->element, seen_from(*inputs[0], shape->size())};
}

// Axes of size 1 come and go; two others become one, or one becomes two.
std::optional<Field> reshape(const Node& node, const Inputs& inputs) {
  if (inputs.size() != 2 || inputs[1] == nullptr) return std::nullopt;
  const Field& data = *inputs[0];
  auto wanted = sizes_of(*inputs[1]);
  if (!wanted) return std::nullopt;
  std::vector<std::size_t> old_axes, new_axes;
  for (std::size_t axis = 0; axis < data.shape.size(); ++axis) {
    if (!is_one(data.shape[axis])) old_axes.push_back(axis);
  }
  const bool zero_copies = integer(node, "allowzero", 0) == 0;
  std::optional<std::size_t> rest;
  for (std::size_t axis = 0; axis < wanted->size(); ++axis) {
    Size& size = (*wanted)[axis];
    if (zero_copies && size == number_size(0)) {
      if (axis >= data.shape.size()) return std::nullopt;
      size = data.shape[axis];
    }
    if (size == number_size(-1)) {
      if (rest) return std::nullopt;
      rest = axis;
    }
    if (!is_one(size)) new_axes.push_back(axis);
  }
  const auto old_size = [&](std::size_t i) { return data.shape[old_axes[i]]; };
  const auto new_size = [&](std::size_t i) -> Size& { return (*wanted)[new_axes[i]]; };
  if (rest) {
    // Of the sizes that are told, as many axes lie in front of it and behind it.
    const auto before = static_cast<std::size_t>(std::ranges::find(new_axes, *rest) - new_axes.begin());
    const std::size_t told = new_axes.size() - 1;
    std::optional<Size> size;
    if (told == old_axes.size()) size = number_size(1);
    if (told + 1 == old_axes.size()) size = old_size(before);
    if (told == 0 && old_axes.size() == 2) size = product_of(old_size(0), old_size(1));
    if (told == 1 && old_axes.size() == 1) size = quotient_of(old_size(0), new_size(before == 0 ? 1 : 0));
    if (!size) return std::nullopt;
    (*wanted)[*rest] = *size;
    if (is_one(*size)) new_axes.erase(new_axes.begin() + static_cast<std::ptrdiff_t>(before));
  }
  std::vector<ExpressionPointer> of_data(data.shape.size(), number(0, Element::int64));
  if (old_axes.size() == 2 && new_axes.size() == 1) {
    if (product_of(old_size(0), old_size(1)) != new_size(0)) return std::nullopt;
    std::tie(of_data[old_axes[0]], of_data[old_axes[1]]) = parted(place(new_axes[0]), old_size(1));
  } else if (old_axes.size() == 1 && new_axes.size() == 2) {
    if (product_of(new_size(0), new_size(1)) != old_size(0)) return std::nullopt;
    of_data[old_axes[0]] = row_of(place(new_axes[0]), new_size(1), place(new_axes[1]));
  } else {
    if (old_axes.size() != new_axes.size()) return std::nullopt;
    for (std::size_t i = 0; i < old_axes.size(); ++i) {
      if (old_size(i) != new_size(i)) return std::nullopt;
      of_data[old_axes[i]] = place(new_axes[i]);
    }
  }
  return Field{*wanted, data.element, substitute(data.at, of_data)};
}

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
  if (count.kind != Size::Kind::number || count.number > max_elements_of_a_list) return std::nullopt;
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
