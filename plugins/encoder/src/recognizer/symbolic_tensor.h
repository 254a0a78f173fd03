#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "recognizer/expression.h"

namespace gpux_cpu::encoder {

/// A tensor whose elements are known as an expression of their indices: shapes, masks, position ids, embedding tables
/// and sums of their rows.
struct SymbolicTensor {
  Shape shape;
  ElementType element_type = ElementType::float32;
  ExpressionPointer expression;
};

SymbolicTensor symbolic_tensor_of(const Constant& constant);
SymbolicTensor symbolic_tensor_of(const Shape& dimensions);  ///< the output of Shape

/// The output of a node whose inputs are all symbolic tensors; null: an optional input that is missing. Empty if the
/// output is not known.
std::optional<SymbolicTensor> symbolic_tensor_of(const Node& node, const std::vector<const SymbolicTensor*>& inputs);

/// The value of a tensor of one element; empty if there are more elements, or the value is not known.
std::optional<double> scalar_of(const SymbolicTensor& tensor);

/// A list of dimensions; empty if it is none.
std::optional<Shape> dimensions_of(const SymbolicTensor& tensor);

/// A list of integers, such as axes.
std::optional<std::vector<std::int64_t>> integers_of(const SymbolicTensor& tensor);

/// The shape that both broadcast to; empty if there is none.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// The expression of the tensor broadcast to `rank` axes.
ExpressionPointer broadcast_to(const SymbolicTensor& tensor, std::size_t rank);

/// The tensor in another shape; empty if it has another number of elements, or axes are divided in a way that is
/// not understood.
std::optional<SymbolicTensor> reshaped(const SymbolicTensor& tensor, const Shape& shape);

/// The outputs of a Split; empty if they are not known.
std::vector<SymbolicTensor> split_of(const Node& node, const std::vector<const SymbolicTensor*>& inputs);

/// The axis from 0, of one that may count from the end; empty if there is no such axis.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);

/// Value of an INT attribute; `otherwise` if it is missing.
std::int64_t integer(const Node& node, const char* name, std::int64_t otherwise);

}  // namespace gpux_cpu::encoder
