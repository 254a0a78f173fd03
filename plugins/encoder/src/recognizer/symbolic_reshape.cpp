// Operators that change the shape and keep the elements.
#include <algorithm>
#include <utility>

#include "recognizer/symbolic_operators.h"

namespace gpux_cpu::encoder {
namespace symbolic {
namespace {

SymbolicTensor without(const SymbolicTensor& tensor, const std::vector<bool>& dropped) {
  SymbolicTensor result{{}, tensor.element_type, nullptr};
  std::vector<ExpressionPointer> data_indices;
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    data_indices.push_back(dropped[axis] ? literal(0, ElementType::int64) : axis_index(result.shape.size()));
    if (!dropped[axis]) result.shape.push_back(tensor.shape[axis]);
  }
  result.expression = substitute(tensor.expression, data_indices);
  return result;
}

}  // namespace

// To two axes: those before `axis`, and the rest.
std::optional<SymbolicTensor> flatten(const Node& node, const Inputs& inputs) {
  const SymbolicTensor& data = *inputs[0];
  const auto rank = static_cast<std::int64_t>(data.shape.size());
  const std::int64_t given = integer(node, "axis", 1), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank) return std::nullopt;
  Shape wanted{fixed(1), fixed(1)};
  for (std::int64_t i = 0; i < rank; ++i) {
    Dimension& side = wanted[i < axis ? 0 : 1];
    const auto product = product_of(side, data.shape[static_cast<std::size_t>(i)]);
    if (!product) return std::nullopt;
    side = *product;
  }
  return reshaped(data, wanted);
}

std::optional<SymbolicTensor> unsqueeze(const Node& node, const Inputs& inputs) {
  const auto axes = axes_of(node, inputs, 1);
  if (!axes) return std::nullopt;
  const std::size_t rank = inputs[0]->shape.size() + axes->size();
  std::vector<bool> is_new(rank);
  for (const std::int64_t one : *axes) {
    const auto axis = axis_of(one, rank);
    if (!axis || is_new[*axis]) return std::nullopt;
    is_new[*axis] = true;
  }
  SymbolicTensor result{{}, inputs[0]->element_type, nullptr};
  std::vector<ExpressionPointer> data_indices;
  for (std::size_t axis = 0, old = 0; axis < rank; ++axis) {
    result.shape.push_back(is_new[axis] ? fixed(1) : inputs[0]->shape[old++]);
    if (!is_new[axis]) data_indices.push_back(axis_index(axis));
  }
  result.expression = substitute(inputs[0]->expression, data_indices);
  return result;
}

std::optional<SymbolicTensor> squeeze(const Node& node, const Inputs& inputs) {
  const SymbolicTensor& data = *inputs[0];
  std::vector<bool> dropped(data.shape.size());
  if (const auto axes = axes_of(node, inputs, 1)) {
    for (const std::int64_t one : *axes) {
      const auto axis = axis_of(one, data.shape.size());
      if (!axis || !is_one(data.shape[*axis])) return std::nullopt;
      dropped[*axis] = true;
    }
  } else {
    // A run-time dimension may be 1, too.
    for (std::size_t axis = 0; axis < dropped.size(); ++axis) {
      if (data.shape[axis].kind != Dimension::Kind::fixed) return std::nullopt;
      dropped[axis] = is_one(data.shape[axis]);
    }
  }
  return without(data, dropped);
}

std::optional<SymbolicTensor> transpose(const Node& node, const Inputs& inputs) {
  const SymbolicTensor& data = *inputs[0];
  const auto given = node.attributes.find("perm");
  const std::size_t rank = data.shape.size();
  SymbolicTensor result{{}, data.element_type, nullptr};
  std::vector<ExpressionPointer> data_indices(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const auto from =
        given == node.attributes.end()
            ? std::optional(rank - 1 - axis)
            : (axis < given->second.integers.size() ? axis_of(given->second.integers[axis], rank) : std::nullopt);
    if (!from) return std::nullopt;
    data_indices[*from] = axis_index(axis);
    result.shape.push_back(data.shape[*from]);
  }
  if (std::ranges::find(data_indices, nullptr) != data_indices.end()) return std::nullopt;
  result.expression = substitute(data.expression, data_indices);
  return result;
}

std::optional<SymbolicTensor> expand(const Node& /*node*/, const Inputs& inputs) {
  if (inputs.size() != 2 || inputs[1] == nullptr) return std::nullopt;
  const auto wanted = dimensions_of(*inputs[1]);
  const auto shape = wanted ? broadcast(inputs[0]->shape, *wanted) : std::nullopt;
  if (!shape) return std::nullopt;
  return SymbolicTensor{*shape, inputs[0]->element_type, broadcast_to(*inputs[0], shape->size())};
}

// How often each axis is repeated is known.
std::optional<SymbolicTensor> tile(const Node& /*node*/, const Inputs& inputs) {
  if (inputs.size() != 2 || inputs[1] == nullptr) return std::nullopt;
  const auto repeats = dimensions_of(*inputs[1]);
  const SymbolicTensor& data = *inputs[0];
  if (!repeats || repeats->size() != data.shape.size()) return std::nullopt;
  SymbolicTensor result = data;
  std::vector<ExpressionPointer> data_indices;
  for (std::size_t axis = 0; axis < data.shape.size(); ++axis) {
    const auto size = product_of(data.shape[axis], (*repeats)[axis]);
    if (!size) return std::nullopt;
    result.shape[axis] = *size;
    data_indices.push_back(is_one((*repeats)[axis]) ? axis_index(axis)
                                                    : apply(Operation::remainder, ElementType::int64,
                                                            {axis_index(axis), dimension_value(data.shape[axis])}));
  }
  result.expression = substitute(data.expression, data_indices);
  return result;
}

std::optional<SymbolicTensor> reshape(const Node& node, const Inputs& inputs) {
  if (inputs.size() != 2 || inputs[1] == nullptr) return std::nullopt;
  const SymbolicTensor& data = *inputs[0];
  auto wanted = dimensions_of(*inputs[1]);
  if (!wanted) return std::nullopt;
  const bool zero_copies = integer(node, "allowzero", 0) == 0;
  std::optional<std::size_t> rest;
  Shape given;
  for (std::size_t axis = 0; axis < wanted->size(); ++axis) {
    Dimension& size = (*wanted)[axis];
    if (zero_copies && size == fixed(0)) {
      if (axis >= data.shape.size()) return std::nullopt;
      size = data.shape[axis];
    }
    if (size == fixed(-1)) {
      if (rest) return std::nullopt;
      rest = axis;
    } else {
      given.push_back(size);
    }
  }
  if (rest) {
    // The dimension of -1 follows from the others.
    const auto size = remaining_of(data.shape, given);
    if (!size) return std::nullopt;
    (*wanted)[*rest] = *size;
  }
  return reshaped(data, *wanted);
}

}  // namespace symbolic

std::optional<SymbolicTensor> reshaped(const SymbolicTensor& data, const Shape& wanted) {
  std::vector<std::size_t> old_axes, new_axes;
  for (std::size_t axis = 0; axis < data.shape.size(); ++axis) {
    if (!symbolic::is_one(data.shape[axis])) old_axes.push_back(axis);
  }
  for (std::size_t axis = 0; axis < wanted.size(); ++axis) {
    if (!symbolic::is_one(wanted[axis])) new_axes.push_back(axis);
  }
  std::vector<ExpressionPointer> data_indices(data.shape.size(), literal(0, ElementType::int64));
  // Groups of axes, each of which has the same elements before and after.
  for (std::size_t from = 0, to = 0; from < old_axes.size() || to < new_axes.size();) {
    if (from == old_axes.size() || to == new_axes.size()) return std::nullopt;
    std::size_t from_end = from + 1, to_end = to + 1;
    std::optional<Dimension> before = data.shape[old_axes[from]], after = wanted[new_axes[to]];
    while (before && after && *before != *after) {
      if (quotient_of(*after, *before)) {
        if (from_end == old_axes.size()) return std::nullopt;
        before = product_of(*before, data.shape[old_axes[from_end++]]);
      } else if (quotient_of(*before, *after)) {
        if (to_end == new_axes.size()) return std::nullopt;
        after = product_of(*after, wanted[new_axes[to_end++]]);
      } else {
        return std::nullopt;
      }
    }
    if (!before || !after) return std::nullopt;
    ExpressionPointer index = axis_index(new_axes[to]);
    for (std::size_t i = to + 1; i < to_end; ++i)
      index = token_index(index, wanted[new_axes[i]], axis_index(new_axes[i]));
    for (std::size_t i = from_end - 1; i > from; --i) {
      const ExpressionPointer size = dimension_value(data.shape[old_axes[i]]);
      data_indices[old_axes[i]] = apply(Operation::remainder, ElementType::int64, {index, size});
      index = apply(Operation::divide, ElementType::int64, {index, size});
    }
    data_indices[old_axes[from]] = index;
    from = from_end;
    to = to_end;
  }
  return SymbolicTensor{wanted, data.element_type, substitute(data.expression, data_indices)};
}

}  // namespace gpux_cpu::encoder
