// Operators that take a part of a tensor by its indices.
#include <algorithm>
#include <utility>

#include "recognizer/symbolic_operators.h"

namespace gpux_encoder::symbolic {
namespace {

constexpr std::size_t max_elements_of_a_table = std::size_t{1} << 16;

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

}  // namespace

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

}  // namespace gpux_encoder::symbolic
