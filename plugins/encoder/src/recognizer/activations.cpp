// Activations of projections, with and without a gate.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>

#include "recognizer/known_facts.h"

namespace gpux_cpu::encoder {
namespace {

constexpr std::array all_activations{Activation::gelu, Activation::tanh_gelu, Activation::relu, Activation::silu,
                                     Activation::quick_gelu};
constexpr double quick_gelu_factor = 1.702;

ExpressionPointer float32_literal(double value) {
  return literal(static_cast<double>(static_cast<float>(value)), ElementType::float32);
}

ExpressionPointer float32_apply(Operation operation, std::vector<ExpressionPointer> arguments) {
  return apply(operation, ElementType::float32, std::move(arguments));
}

double expected_value(Activation activation, double x) {
  switch (activation) {
    case Activation::gelu:
      return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case Activation::tanh_gelu:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::quick_gelu:
      return x / (1 + std::exp(-quick_gelu_factor * x));
  }
  return std::nan("");
}

/// An elementwise function of columns of projections.
struct ColumnFunction {
  const Expression& expression;
  std::vector<ProjectionColumns> leaves;  ///< one or two

  [[nodiscard]] double at(std::span<const double> values) const {
    return evaluate(expression, {}, [&](const Expression& leaf) {
      const auto found = std::ranges::find(leaves, columns_of(leaf));
      return values[static_cast<std::size_t>(found - leaves.begin())];
    });
  }

  // The same column of each, plus a fixed number.
  static ProjectionColumns columns_of(const Expression& leaf) {
    const Expression& column = *leaf.arguments[2];
    const bool is_shifted = column.is(Operation::add);
    return {leaf.computed, is_shifted ? static_cast<std::size_t>(column.arguments[1]->value) : 0};
  }
};

// Collects the leaves; false if the function depends on anything else.
bool collect(const Expression& expression, const KnownFacts& facts, std::vector<ProjectionColumns>& leaves) {
  switch (expression.kind) {
    case Expression::Kind::literal:
      return true;
    case Expression::Kind::apply:
      return std::ranges::all_of(expression.arguments,
                                 [&](const ExpressionPointer& one) { return collect(*one, facts, leaves); });
    case Expression::Kind::computed:
      break;
    default:
      return false;
  }
  const auto* projection = facts.as<Projection>(expression.computed);
  if (projection == nullptr || !std::holds_alternative<StreamInput>(projection->input)) return false;
  const Expression& column = *expression.arguments[2];
  const bool is_shifted = column.is(Operation::add) && is_axis_index(column.arguments[0], 2) &&
                          literal_value(column.arguments[1]).value_or(-1) >= 0;
  if (!facts.is_text(expression.arguments[0], 0) || !facts.is_token(expression.arguments[1], 1) ||
      (!is_shifted && !is_axis_index(expression.arguments[2], 2))) {
    return false;
  }
  const ProjectionColumns columns = ColumnFunction::columns_of(expression);
  if (std::ranges::find(leaves, columns) == leaves.end()) leaves.push_back(columns);
  return leaves.size() <= 2;
}

// Compares functions at dense points around 0, where they bend, and at some far points.
bool is_near(const ColumnFunction& function, Activation activation, std::size_t activated) {
  std::array<double, 2> values{1, 1};
  const auto is_near_at = [&](double x, double factor) {
    const double input = static_cast<double>(static_cast<float>(x));
    values[activated] = input;
    values[1 - activated] = factor;
    const double value = function.at(values), expected = expected_value(activation, input) * factor;
    return std::abs(value - expected) <= 3e-6 * std::max(1.0, std::abs(x * factor));
  };
  for (int step = -1200; step <= 1200; ++step) {
    if (!is_near_at(step / 100.0, 1)) return false;
  }
  if (function.leaves.size() == 2) {
    for (const double x : {-2.5, -0.5, 0.0, 0.75, 4.0}) {
      for (const double factor : {-300.0, -1.5, 0.0, 0.25, 7.0, 1000.0}) {
        if (!is_near_at(x, factor)) return false;
      }
    }
  }
  return std::ranges::all_of(std::initializer_list<double>{-1e4, -300, -50, -20, 20, 50, 300, 1e4},
                             [&](double x) { return is_near_at(x, 1); });
}

// Gelu of ONNX, and com.microsoft's with and without a bias; Swish.
Fact activated(const Node& node, Activation activation, KnownFacts& facts) {
  const SymbolicTensor* of = facts.input(node, 0);
  if (of == nullptr) return Unknown{};
  SymbolicTensor result = *of;
  if (node.inputs.size() > 1 && !node.inputs[1].empty()) {
    const Constant* bias = facts.weights(node.inputs[1], 1);
    const auto biased = bias == nullptr ? std::nullopt : with_bias(*of, *bias, facts);
    if (!biased) return unknown(node, "has a bias that does not fit");
    result = *biased;
  }
  result.expression = activation_of(activation, result.expression);
  return result;
}

}  // namespace

ExpressionPointer activation_of(Activation activation, const ExpressionPointer& x) {
  const auto make = float32_apply;
  ExpressionPointer inner;
  switch (activation) {
    case Activation::relu:
      return make(Operation::maximum, {x, float32_literal(0)});
    case Activation::silu:
      return make(Operation::multiply, {x, make(Operation::sigmoid, {x})});
    case Activation::quick_gelu:
      return make(Operation::multiply,
                  {x, make(Operation::sigmoid, {make(Operation::multiply, {x, float32_literal(quick_gelu_factor)})})});
    case Activation::gelu:
      inner = make(Operation::erf, {make(Operation::divide, {x, float32_literal(std::numbers::sqrt2)})});
      break;
    case Activation::tanh_gelu: {
      const ExpressionPointer cube =
          make(Operation::multiply, {make(Operation::power, {x, float32_literal(3)}), float32_literal(0.044715)});
      inner = make(Operation::tanh, {make(Operation::multiply, {make(Operation::add, {x, cube}),
                                                                float32_literal(std::sqrt(2 / std::numbers::pi))})});
      break;
    }
  }
  return make(Operation::multiply, {make(Operation::multiply, {x, make(Operation::add, {inner, float32_literal(1)})}),
                                    float32_literal(0.5)});
}

std::optional<IntermediateInput> intermediate_of(const ExpressionPointer& rows, std::size_t columns,
                                                 const KnownFacts& facts) {
  ColumnFunction function{*rows, {}};
  if (!rows->arguments.empty() && rows->kind == Expression::Kind::computed) return std::nullopt;
  if (!collect(*rows, facts, function.leaves) || function.leaves.empty()) return std::nullopt;
  for (std::size_t activated = 0; activated < function.leaves.size(); ++activated) {
    const auto found =
        std::ranges::find_if(all_activations, [&](Activation one) { return is_near(function, one, activated); });
    if (found == all_activations.end()) continue;
    IntermediateInput input{function.leaves[activated], {}, columns, *found};
    if (function.leaves.size() == 2) input.multiplied = function.leaves[1 - activated];
    return input;
  }
  return std::nullopt;
}

Fact derive_activation(const Node& node, KnownFacts& facts) {
  const std::string& type = node.type;
  const bool is_microsoft = node.domain == "com.microsoft";
  if (type == "Gelu") {
    const auto approximate = node.attributes.find("approximate");
    const bool is_tanh = approximate != node.attributes.end() && approximate->second.text == "tanh";
    return activated(node, is_tanh ? Activation::tanh_gelu : Activation::gelu, facts);
  }
  if (is_microsoft && type == "BiasGelu") return activated(node, Activation::gelu, facts);
  if (is_microsoft && type == "FastGelu") return activated(node, Activation::tanh_gelu, facts);
  const bool is_swish = (is_microsoft && type == "QuickGelu") || (!is_microsoft && type == "Swish");
  if (!is_swish || node.inputs.size() != 1) return Unknown{};
  const float alpha = number(node, "alpha", is_microsoft ? static_cast<float>(quick_gelu_factor) : 1);
  if (alpha == 1) return activated(node, Activation::silu, facts);
  if (std::abs(static_cast<double>(alpha) - quick_gelu_factor) < 1e-6)
    return activated(node, Activation::quick_gelu, facts);
  return unknown(node, "has another factor than 1 and 1.702");
}

}  // namespace gpux_cpu::encoder
