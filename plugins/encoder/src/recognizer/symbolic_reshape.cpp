// Operators that change the shape and keep the elements.
#include <algorithm>
#include <tuple>
#include <utility>

#include "recognizer/symbolic_operators.h"

namespace gpux_encoder::symbolic {
namespace {

std::optional<Dimension> product_of(const Dimension& a, const Dimension& b) {
  return dimension_of(apply(Operation::multiply, ElementType::int64, {dimension_value(a), dimension_value(b)}));
}

std::optional<Dimension> quotient_of(const Dimension& product, const Dimension& factor) {
  using Kind = Dimension::Kind;
  if (product == factor) return fixed(1);
  if (product.kind == Kind::tokens && factor.kind == Kind::sequence) return Dimension{Kind::batch, 0};
  if (product.kind == Kind::tokens && factor.kind == Kind::batch) return Dimension{Kind::sequence, 0};
  const bool divides = product.kind == Kind::fixed && factor.kind == Kind::fixed && factor.value > 0 &&
                       product.value % factor.value == 0;
  return divides ? std::optional(fixed(product.value / factor.value)) : std::nullopt;
}

// An index along an axis that two axes were merged into, as the indices along these; `inner` is the second.
std::pair<ExpressionPointer, ExpressionPointer> split_index(const ExpressionPointer& at, const Dimension& inner) {
  return {apply(Operation::divide, ElementType::int64, {at, dimension_value(inner)}),
          apply(Operation::remainder, ElementType::int64, {at, dimension_value(inner)})};
}

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
  SymbolicTensor result{{fixed(1), fixed(1)}, data.element_type, nullptr};
  std::vector<ExpressionPointer> data_indices(data.shape.size(), literal(0, ElementType::int64));
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    std::vector<std::size_t> axes;
    for (std::int64_t i = side == 0 ? 0 : axis; i < (side == 0 ? axis : rank); ++i) {
      if (!is_one(data.shape[static_cast<std::size_t>(i)])) axes.push_back(static_cast<std::size_t>(i));
    }
    if (axes.empty()) continue;
    if (axes.size() == 1) {
      result.shape[side] = data.shape[axes[0]];
      data_indices[axes[0]] = axis_index(side);
      continue;
    }
    const auto size = product_of(data.shape[axes[0]], data.shape[axes[1]]);
    if (axes.size() > 2 || !size) return std::nullopt;
    result.shape[side] = *size;
    std::tie(data_indices[axes[0]], data_indices[axes[1]]) = split_index(axis_index(side), data.shape[axes[1]]);
  }
  result.expression = substitute(data.expression, data_indices);
  return result;
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

// Adds and removes axes of size 1, merges two other axes, or splits one.
std::optional<SymbolicTensor> reshape(const Node& node, const Inputs& inputs) {
  if (inputs.size() != 2 || inputs[1] == nullptr) return std::nullopt;
  const SymbolicTensor& data = *inputs[0];
  auto wanted = dimensions_of(*inputs[1]);
  if (!wanted) return std::nullopt;
  std::vector<std::size_t> old_axes, new_axes;
  for (std::size_t axis = 0; axis < data.shape.size(); ++axis) {
    if (!is_one(data.shape[axis])) old_axes.push_back(axis);
  }
  const bool zero_copies = integer(node, "allowzero", 0) == 0;
  std::optional<std::size_t> rest;
  for (std::size_t axis = 0; axis < wanted->size(); ++axis) {
    Dimension& size = (*wanted)[axis];
    if (zero_copies && size == fixed(0)) {
      if (axis >= data.shape.size()) return std::nullopt;
      size = data.shape[axis];
    }
    if (size == fixed(-1)) {
      if (rest) return std::nullopt;
      rest = axis;
    }
    if (!is_one(size)) new_axes.push_back(axis);
  }
  const auto old_size = [&](std::size_t i) { return data.shape[old_axes[i]]; };
  const auto new_size = [&](std::size_t i) -> Dimension& { return (*wanted)[new_axes[i]]; };
  if (rest) {
    // The dimension of -1 follows from the others.
    const auto before = static_cast<std::size_t>(std::ranges::find(new_axes, *rest) - new_axes.begin());
    const std::size_t told = new_axes.size() - 1;
    std::optional<Dimension> size;
    if (told == old_axes.size()) size = fixed(1);
    if (told + 1 == old_axes.size()) size = old_size(before);
    if (told == 0 && old_axes.size() == 2) size = product_of(old_size(0), old_size(1));
    if (told == 1 && old_axes.size() == 1) size = quotient_of(old_size(0), new_size(before == 0 ? 1 : 0));
    if (!size) return std::nullopt;
    (*wanted)[*rest] = *size;
    if (is_one(*size)) new_axes.erase(new_axes.begin() + static_cast<std::ptrdiff_t>(before));
  }
  std::vector<ExpressionPointer> data_indices(data.shape.size(), literal(0, ElementType::int64));
  if (old_axes.size() == 2 && new_axes.size() == 1) {
    if (product_of(old_size(0), old_size(1)) != new_size(0)) return std::nullopt;
    std::tie(data_indices[old_axes[0]], data_indices[old_axes[1]]) = split_index(axis_index(new_axes[0]), old_size(1));
  } else if (old_axes.size() == 1 && new_axes.size() == 2) {
    if (product_of(new_size(0), new_size(1)) != old_size(0)) return std::nullopt;
    data_indices[old_axes[0]] = token_index(axis_index(new_axes[0]), new_size(1), axis_index(new_axes[1]));
  } else {
    if (old_axes.size() != new_axes.size()) return std::nullopt;
    for (std::size_t i = 0; i < old_axes.size(); ++i) {
      if (old_size(i) != new_size(i)) return std::nullopt;
      data_indices[old_axes[i]] = axis_index(new_axes[i]);
    }
  }
  return SymbolicTensor{*wanted, data.element_type, substitute(data.expression, data_indices)};
}

}  // namespace gpux_encoder::symbolic
