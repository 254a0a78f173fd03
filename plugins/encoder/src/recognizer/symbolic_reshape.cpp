// Operators that give the same elements another shape.
#include <algorithm>
#include <tuple>
#include <utility>

#include "recognizer/symbolic_operators.h"

namespace gpux_encoder::symbolic {
namespace {

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

}  // namespace

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

}  // namespace gpux_encoder::symbolic
