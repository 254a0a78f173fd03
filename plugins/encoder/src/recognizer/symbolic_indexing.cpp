// Operators that select elements by their indices: Gather, GatherElements, GatherND, Slice.
#include <algorithm>
#include <utility>

#include "recognizer/symbolic_operators.h"

namespace gpux_cpu::encoder {
namespace symbolic {
namespace {

constexpr std::size_t max_elements_of_a_table = std::size_t{1} << 16;

// Exporters of fixed sizes store calculated indices in a table. If each of them is the index along one axis of `shape`,
// or the token index of two, returns that instead of the table.
ExpressionPointer without_table(const ExpressionPointer& index, const Shape& shape) {
  if (index->kind != Expression::Kind::table || index->element_type == ElementType::float32) return index;
  const Constant& table = *index->constant;
  std::vector<std::size_t> axes;  // of the table that are not fixed
  for (std::size_t axis = 0; axis < table.shape.size(); ++axis) {
    const Expression& at = *index->arguments[axis];
    if (at.kind == Expression::Kind::literal) continue;
    const bool is_whole_axis =
        at.kind == Expression::Kind::axis_index && at.axis < shape.size() && shape[at.axis] == fixed(table.shape[axis]);
    if (!is_whole_axis || axes.size() == 2) return index;
    axes.push_back(axis);
  }
  if (axes.empty() || table.count() > max_elements_of_a_table) return index;
  const auto size = [&](std::size_t which) { return which < axes.size() ? table.shape[axes[which]] : 1; };
  bool is_first = true, is_second = axes.size() == 2, is_row = is_second;
  std::vector<double> indices(shape.size());
  for (std::int64_t first = 0; first < size(0); ++first) {
    for (std::int64_t second = 0; second < size(1); ++second) {
      indices[index->arguments[axes[0]]->axis] = static_cast<double>(first);
      if (axes.size() == 2) indices[index->arguments[axes[1]]->axis] = static_cast<double>(second);
      const double value = evaluate(*index, indices);
      is_first = is_first && value == static_cast<double>(first);
      is_second = is_second && value == static_cast<double>(second);
      is_row = is_row && value == static_cast<double>(first * size(1) + second);
    }
  }
  if (is_first) return index->arguments[axes[0]];
  if (is_second) return index->arguments[axes[1]];
  return is_row ? token_index(index->arguments[axes[0]], fixed(size(1)), index->arguments[axes[1]]) : index;
}

// text * length + token, where `token` is the index along an axis of that length in `shape`: a token index.
ExpressionPointer as_token_index(const ExpressionPointer& index, const Shape& shape) {
  if (!index->is(Operation::add)) return without_table(index, shape);
  for (const bool is_turned : {false, true}) {
    const ExpressionPointer& scaled = index->arguments[is_turned ? 1 : 0];
    const ExpressionPointer token = without_table(index->arguments[is_turned ? 0 : 1], shape);
    if (!scaled->is(Operation::multiply) || token->kind != Expression::Kind::axis_index ||
        token->axis >= shape.size()) {
      continue;
    }
    const Dimension& length = shape[token->axis];
    for (const bool is_first : {false, true}) {
      const ExpressionPointer text = without_table(scaled->arguments[is_first ? 1 : 0], shape);
      if (text->kind == Expression::Kind::axis_index && dimension_of(scaled->arguments[is_first ? 0 : 1]) == length) {
        return token_index(text, length, token);
      }
    }
  }
  return index;
}

struct SliceRange {
  ExpressionPointer start;
  Dimension size;
};

constexpr std::int64_t far = std::int64_t{1} << 30;

// The start and the size of a slice of an axis, in steps of 1. A slice of a fixed axis from 0 up to a run-time
// dimension is taken to have that dimension.
std::optional<SliceRange> slice_range(const Dimension& size, const Dimension& start, const Dimension& end) {
  using Kind = Dimension::Kind;
  const auto at = [](std::int64_t index) { return literal(static_cast<double>(index), ElementType::int64); };
  if (start.kind != Kind::fixed) return std::nullopt;
  if (size.kind != Kind::fixed) {
    const bool is_to_end = end == size || (end.kind == Kind::fixed && end.value > far);
    if (start.value == 0 && is_to_end) return SliceRange{at(0), size};
    if (start.value == 0 && end == fixed(1)) return SliceRange{at(0), end};
    if (start.value == -1 && is_to_end) {
      return SliceRange{apply(Operation::add, ElementType::int64, {dimension_value(size), at(-1)}), fixed(1)};
    }
    return std::nullopt;
  }
  const auto bounded = [&](std::int64_t index) {
    return std::clamp<std::int64_t>(index < 0 ? index + size.value : index, 0, size.value);
  };
  const std::int64_t first = start.value < -far ? 0 : bounded(start.value);
  if (end.kind != Kind::fixed) return first == 0 ? std::optional(SliceRange{at(first), end}) : std::nullopt;
  const std::int64_t last = end.value > far ? size.value : bounded(end.value);
  return SliceRange{at(first), fixed(std::max<std::int64_t>(last - first, 0))};
}

}  // namespace

std::optional<SymbolicTensor> gather(const Node& node, const Inputs& inputs) {
  const SymbolicTensor &data = *inputs[0], &indices = *inputs[1];
  const auto axis = axis_of(integer(node, "axis", 0), data.shape.size());
  if (!axis) return std::nullopt;
  const std::size_t before = *axis, taken = indices.shape.size();
  SymbolicTensor result{{}, data.element_type, nullptr};
  result.shape.assign(data.shape.begin(), data.shape.begin() + static_cast<std::ptrdiff_t>(before));
  result.shape.insert(result.shape.end(), indices.shape.begin(), indices.shape.end());
  result.shape.insert(result.shape.end(), data.shape.begin() + static_cast<std::ptrdiff_t>(before) + 1,
                      data.shape.end());
  std::vector<ExpressionPointer> index_indices;
  for (std::size_t i = 0; i < taken; ++i) index_indices.push_back(axis_index(before + i));
  ExpressionPointer index = substitute(indices.expression, index_indices);
  if (const auto known = literal_value(index); known && *known < 0) {
    index = apply(Operation::add, ElementType::int64,
                  {dimension_value(data.shape[before]), literal(*known, ElementType::int64)});
  }
  index = as_token_index(index, result.shape);
  std::vector<ExpressionPointer> data_indices;
  for (std::size_t i = 0; i < data.shape.size(); ++i) {
    data_indices.push_back(i < before ? axis_index(i) : i == before ? index : axis_index(i - 1 + taken));
  }
  // A list of which more than one is taken: its elements have to be known.
  result.expression = substitute(data.expression, data_indices);
  return result;
}

std::optional<SymbolicTensor> gather_elements(const Node& node, const Inputs& inputs) {
  const SymbolicTensor &data = *inputs[0], &indices = *inputs[1];
  const auto axis = axis_of(integer(node, "axis", 0), data.shape.size());
  if (!axis || indices.shape.size() != data.shape.size()) return std::nullopt;
  std::vector<ExpressionPointer> data_indices = axis_indices(data.shape.size());
  data_indices[*axis] = indices.expression;
  return SymbolicTensor{indices.shape, data.element_type, substitute(data.expression, data_indices)};
}

std::optional<SymbolicTensor> gather_nd(const Node& node, const Inputs& inputs) {
  const SymbolicTensor &data = *inputs[0], &indices = *inputs[1];
  const std::int64_t given = integer(node, "batch_dims", 0);
  if (indices.shape.empty() || indices.shape.back().kind != Dimension::Kind::fixed || given < 0 ||
      given >= static_cast<std::int64_t>(indices.shape.size())) {
    return std::nullopt;
  }
  const auto batch_axes = static_cast<std::size_t>(given);
  const auto indexed_axes = static_cast<std::size_t>(std::max<std::int64_t>(indices.shape.back().value, 0));
  if (indexed_axes == 0 || batch_axes + indexed_axes > data.shape.size()) return std::nullopt;
  for (std::size_t axis = 0; axis < batch_axes; ++axis) {
    if (data.shape[axis] != indices.shape[axis]) return std::nullopt;
  }
  const std::size_t rank = indices.shape.size() - 1;
  Shape result(indices.shape.begin(), indices.shape.end() - 1);
  result.insert(result.end(), data.shape.begin() + static_cast<std::ptrdiff_t>(batch_axes + indexed_axes),
                data.shape.end());
  std::vector<ExpressionPointer> data_indices = axis_indices(batch_axes);
  for (std::size_t i = 0; i < indexed_axes; ++i) {
    std::vector<ExpressionPointer> index_indices = axis_indices(rank);
    index_indices.push_back(literal(static_cast<double>(i), ElementType::int64));
    data_indices.push_back(without_table(substitute(indices.expression, index_indices), result));
  }
  for (std::size_t axis = rank; axis < result.size(); ++axis) data_indices.push_back(axis_index(axis));
  return SymbolicTensor{result, data.element_type, substitute(data.expression, data_indices)};
}

std::optional<SymbolicTensor> slice(const Node& /*node*/, const Inputs& inputs) {
  const SymbolicTensor& data = *inputs[0];
  if (inputs.size() < 3 || inputs[1] == nullptr || inputs[2] == nullptr) return std::nullopt;
  const auto starts = dimensions_of(*inputs[1]), ends = dimensions_of(*inputs[2]);
  if (!starts || !ends || starts->size() != ends->size()) return std::nullopt;
  std::vector<std::int64_t> axes(starts->size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  if (const SymbolicTensor* given = input(inputs, 3)) {
    const auto known = integers_of(*given);
    if (!known || known->size() != axes.size()) return std::nullopt;
    axes = *known;
  }
  std::vector<std::int64_t> steps(axes.size(), 1);
  if (const SymbolicTensor* given = input(inputs, 4)) {
    const auto known = integers_of(*given);
    if (!known || known->size() != axes.size() ||
        std::ranges::any_of(*known, [](std::int64_t step) { return step < 1; }))
      return std::nullopt;
    steps = *known;
  }
  SymbolicTensor result = data;
  std::vector<ExpressionPointer> data_indices = axis_indices(data.shape.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axis_of(axes[i], data.shape.size());
    if (!axis) return std::nullopt;
    const auto range = slice_range(result.shape[*axis], (*starts)[i], (*ends)[i]);
    if (!range) return std::nullopt;
    result.shape[*axis] = range->size;
    ExpressionPointer index = axis_index(*axis);
    if (steps[i] != 1) {
      if (range->size.kind != Dimension::Kind::fixed) return std::nullopt;
      result.shape[*axis] = fixed((range->size.value + steps[i] - 1) / steps[i]);
      index = apply(Operation::multiply, ElementType::int64,
                    {index, literal(static_cast<double>(steps[i]), ElementType::int64)});
    }
    data_indices[*axis] = apply(Operation::add, ElementType::int64, {index, range->start});
  }
  result.expression = substitute(data.expression, data_indices);
  return result;
}

}  // namespace symbolic

std::vector<SymbolicTensor> split_of(const Node& node, const std::vector<const SymbolicTensor*>& inputs) {
  if (inputs.empty() || inputs[0] == nullptr || node.outputs.empty()) return {};
  const SymbolicTensor& data = *inputs[0];
  const auto axis = axis_of(integer(node, "axis", 0), data.shape.size());
  if (!axis || data.shape[*axis].kind != Dimension::Kind::fixed) return {};
  const std::int64_t whole = data.shape[*axis].value, count = static_cast<std::int64_t>(node.outputs.size());
  std::vector<std::int64_t> sizes;
  if (inputs.size() > 1 && inputs[1] != nullptr) {
    sizes = integers_of(*inputs[1]).value_or(sizes);
  } else if (const auto given = node.attributes.find("split"); given != node.attributes.end()) {
    sizes = given->second.integers;
  } else if (whole % count == 0) {
    sizes.assign(node.outputs.size(), whole / count);
  }
  if (sizes.size() != node.outputs.size()) return {};
  std::vector<SymbolicTensor> parts;
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    if (size <= 0 || first + size > whole) return {};
    SymbolicTensor part = data;
    part.shape[*axis] = fixed(size);
    std::vector<ExpressionPointer> indices = symbolic::axis_indices(data.shape.size());
    indices[*axis] = apply(Operation::add, ElementType::int64,
                           {axis_index(*axis), literal(static_cast<double>(first), ElementType::int64)});
    part.expression = substitute(data.expression, indices);
    parts.push_back(std::move(part));
    first += size;
  }
  return parts;
}

}  // namespace gpux_cpu::encoder
