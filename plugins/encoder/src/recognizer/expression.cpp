#include "recognizer/expression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "recognizer/simplify.h"

namespace gpux_encoder {
namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

std::size_t flat_index(const Constant& constant, std::span<const double> places) {
  std::size_t index = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const double size = static_cast<double>(constant.shape[i]);
    if (!(places[i] >= 0 && places[i] < size) || places[i] != std::trunc(places[i])) return SIZE_MAX;
    index = index * static_cast<std::size_t>(constant.shape[i]) + static_cast<std::size_t>(places[i]);
  }
  return index;
}

ExpressionPointer finished(Expression made) {
  for (const ExpressionPointer& argument : made.arguments) made.parts += argument->parts;
  return std::make_shared<const Expression>(std::move(made));
}

}  // namespace

double element_of(const Constant& constant, std::size_t index) {
  switch (constant.element) {
    case Element::float32:
      return static_cast<double>(static_cast<const float*>(constant.data)[index]);
    case Element::int64:
      return static_cast<double>(static_cast<const std::int64_t*>(constant.data)[index]);
    case Element::int32:
      return static_cast<const std::int32_t*>(constant.data)[index];
    case Element::boolean:
      return static_cast<const std::uint8_t*>(constant.data)[index] != 0 ? 1 : 0;
    case Element::other:
      break;
  }
  return nothing;
}

ExpressionPointer number(double value, Element element) {
  Expression made;
  made.number = value;
  made.element = element;
  return finished(std::move(made));
}

ExpressionPointer size_of_batch(const Size& size) {
  if (size.kind == Size::Kind::number) return number(static_cast<double>(size.number), Element::int64);
  Expression made;
  made.kind = Expression::Kind::size;
  made.size = size;
  made.element = Element::int64;
  return finished(std::move(made));
}

ExpressionPointer place(std::size_t axis) {
  Expression made;
  made.kind = Expression::Kind::place;
  made.axis = axis;
  made.element = Element::int64;
  return finished(std::move(made));
}

ExpressionPointer input_at(std::string name, std::vector<ExpressionPointer> places) {
  Expression made;
  made.kind = Expression::Kind::input;
  made.name = std::move(name);
  made.element = Element::int64;
  made.arguments = std::move(places);
  return finished(std::move(made));
}

ExpressionPointer table_at(const Constant& constant, std::vector<ExpressionPointer> places) {
  std::vector<double> known;
  for (const ExpressionPointer& one : places) {
    if (one->kind == Expression::Kind::number) known.push_back(one->number);
  }
  if (known.size() == places.size()) {
    const std::size_t index = flat_index(constant, known);
    return number(index == SIZE_MAX ? nothing : element_of(constant, index), constant.element);
  }
  Expression made;
  made.kind = Expression::Kind::table;
  made.constant = &constant;
  made.element = constant.element;
  made.arguments = std::move(places);
  return finished(std::move(made));
}

ExpressionPointer count_up(ExpressionPointer counted, ExpressionPointer text, ExpressionPointer where) {
  Expression made;
  made.kind = Expression::Kind::count;
  made.element = counted->element;
  made.arguments = {std::move(counted), std::move(text), std::move(where)};
  return finished(std::move(made));
}

ExpressionPointer row_of(ExpressionPointer text, const Size& length, ExpressionPointer token) {
  Expression made;
  made.kind = Expression::Kind::row;
  made.size = length;
  made.element = Element::int64;
  made.arguments = {std::move(text), std::move(token)};
  return finished(std::move(made));
}

ExpressionPointer apply(Operation operation, Element element, std::vector<ExpressionPointer> arguments) {
  std::vector<double> known;
  for (const ExpressionPointer& one : arguments) {
    if (one->kind == Expression::Kind::number) known.push_back(one->number);
  }
  if (known.size() == arguments.size()) return number(calculated(operation, element, known), element);
  if (ExpressionPointer shorter = shortened(operation, element, arguments)) return shorter;
  Expression made;
  made.kind = Expression::Kind::apply;
  made.operation = operation;
  made.element = element;
  made.arguments = std::move(arguments);
  return finished(std::move(made));
}

std::optional<double> number_of(const ExpressionPointer& expression) {
  if (expression->kind != Expression::Kind::number) return std::nullopt;
  return expression->number;
}

std::optional<Size> size_of(const ExpressionPointer& expression) {
  if (expression->kind == Expression::Kind::size) return expression->size;
  const auto known = number_of(expression);
  if (!known || std::isnan(*known)) return std::nullopt;
  constexpr double far = 4e18;  // ends of slices are
  return Size{Size::Kind::number, static_cast<std::int64_t>(std::clamp(*known, -far, far))};
}

bool is_place(const ExpressionPointer& expression, std::size_t axis) {
  return expression->kind == Expression::Kind::place && expression->axis == axis;
}

bool same(const Expression& a, const Expression& b) {
  if (&a == &b) return true;
  const bool alike = a.kind == b.kind && a.element == b.element && a.size == b.size && a.axis == b.axis &&
                     a.constant == b.constant && a.name == b.name && a.arguments.size() == b.arguments.size() &&
                     (a.kind != Expression::Kind::apply || a.operation == b.operation) &&
                     (a.kind != Expression::Kind::number || a.number == b.number);
  return alike && std::equal(a.arguments.begin(), a.arguments.end(), b.arguments.begin(),
                             [](const auto& x, const auto& y) { return same(*x, *y); });
}

ExpressionPointer substitute(const ExpressionPointer& expression, const std::vector<ExpressionPointer>& places,
                             const Replacement& replacement) {
  const Expression& from = *expression;
  switch (from.kind) {
    case Expression::Kind::number:
    case Expression::Kind::size:
      return expression;
    case Expression::Kind::place:
      return from.axis < places.size() && places[from.axis] != nullptr ? places[from.axis] : expression;
    default:
      break;
  }
  std::vector<ExpressionPointer> arguments;
  const bool is_count = from.kind == Expression::Kind::count;
  for (const ExpressionPointer& argument : from.arguments) {
    // What is counted is a function of places of its own.
    arguments.push_back(is_count && arguments.empty() ? argument : substitute(argument, places, replacement));
  }
  ExpressionPointer made;
  if (from.kind == Expression::Kind::table) return table_at(*from.constant, std::move(arguments));
  if (from.kind == Expression::Kind::apply) return apply(from.operation, from.element, std::move(arguments));
  if (from.kind == Expression::Kind::row) return row_of(arguments[0], from.size, arguments[1]);
  made = is_count ? count_up(arguments[0], arguments[1], arguments[2]) : input_at(from.name, std::move(arguments));
  const ExpressionPointer instead = replacement == nullptr ? nullptr : replacement(*made);
  return instead == nullptr ? made : instead;
}

double evaluate(const Expression& expression, const std::vector<double>& places,
                const std::function<double(const Expression&)>& leaf) {
  switch (expression.kind) {
    case Expression::Kind::number:
      return expression.number;
    case Expression::Kind::size:
    case Expression::Kind::row:
      return nothing;
    case Expression::Kind::place:
      return expression.axis < places.size() ? places[expression.axis] : nothing;
    case Expression::Kind::input:
    case Expression::Kind::count:
      return leaf == nullptr ? nothing : leaf(expression);
    default:
      break;
  }
  std::array<double, 8> room{};
  const std::span<double> arguments = std::span(room).first(std::min(room.size(), expression.arguments.size()));
  for (std::size_t i = 0; i < arguments.size(); ++i) arguments[i] = evaluate(*expression.arguments[i], places, leaf);
  if (expression.kind == Expression::Kind::apply)
    return calculated(expression.operation, expression.element, arguments);
  const std::size_t index = flat_index(*expression.constant, arguments);
  return index == SIZE_MAX ? nothing : element_of(*expression.constant, index);
}

bool contains(const Expression& expression, const std::function<bool(const Expression&)>& condition) {
  return condition(expression) || std::ranges::any_of(expression.arguments, [&](const ExpressionPointer& argument) {
           return contains(*argument, condition);
         });
}

std::vector<ExpressionPointer> terms_of(const ExpressionPointer& sum) {
  if (!sum->is(Operation::add) || sum->element != Element::float32) return {sum};
  std::vector<ExpressionPointer> terms;
  for (const ExpressionPointer& argument : sum->arguments) {
    const std::vector<ExpressionPointer> inner = terms_of(argument);
    terms.insert(terms.end(), inner.begin(), inner.end());
  }
  return terms;
}

}  // namespace gpux_encoder
