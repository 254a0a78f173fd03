#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace gpux::plugin_example {

/// A size, or a name for one that is only known when the model runs.
using Dimension = std::variant<std::int64_t, std::string>;

using Shape = std::vector<Dimension>;

/// A float32 value of the model below: a graph input, or a constant if it holds data.
struct Operand {
  Shape shape;
  std::vector<float> constant = {};
  bool rank_known = true;
};

/// The bytes of an ONNX model that computes product = Mul(left, right) in a node "times" and sum = Add(product, one) in
/// a node "plus". With `same_operand` the product is left * left and there is no right; with `negated` left goes
/// through a Neg in a node "minus" first.
struct MultiplyModel {
  Operand left;
  Operand right;
  bool same_operand = false;
  /// ONNX's number of the element type, for all values: 1 float32, 11 double.
  int element_type = 1;
  bool negated = false;
};

std::string serialize(const MultiplyModel& model);

}  // namespace gpux::plugin_example
