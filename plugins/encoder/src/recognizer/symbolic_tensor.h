#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recognizer/expression.h"
#include "recognizer/graph.h"

namespace gpux_encoder {

/// A tensor that is known as a function of its places: shapes, masks, positions, tables and sums of their rows.
struct Field {
  Shape shape;
  Element element = Element::float32;
  ExpressionPointer at;
};

Field field_of(const Constant& constant);
Field field_of(const Shape& sizes);  ///< the list of them

/// Of a node whose inputs are all fields (null where one is left out). Empty where it is not known what comes out.
std::optional<Field> field_of(const Node& node, const std::vector<const Field*>& inputs);

/// The one element; empty where there are more, or it depends on anything.
std::optional<double> scalar_of(const Field& field);

/// A list of sizes; empty where it is none.
std::optional<Shape> sizes_of(const Field& field);

/// A list of numbers, such as axes.
std::optional<std::vector<std::int64_t>> numbers_of(const Field& field);

/// The shape that two have together; empty where they do not fit.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// The field as seen from a tensor of `rank` axes that it is spread over: its last axis on the last, its only places
/// wherever it has but one.
ExpressionPointer seen_from(const Field& field, std::size_t rank);

/// An axis from 0, of one that may count from the end; empty where there is none such.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);

/// An attribute of one whole number.
std::int64_t integer(const Node& node, const char* name, std::int64_t otherwise);

}  // namespace gpux_encoder
