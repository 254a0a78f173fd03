// Elementwise results that are more than expressions: biases, residual sums, and the steps of norms.
#include <algorithm>
#include <array>
#include <utility>

#include "recognizer/known_facts.h"

namespace gpux_cpu::encoder {
namespace {

bool refers_to_computed(const Expression& expression) {
  return contains(expression, [](const Expression& one) { return one.kind == Expression::Kind::computed; });
}

bool refers_to_mean(const Expression& expression, const KnownFacts& facts) {
  return contains(expression, [&](const Expression& one) {
    return one.kind == Expression::Kind::computed && facts.as<Mean>(one.computed) != nullptr;
  });
}

bool has_rows_shape(const SymbolicTensor& tensor, const KnownFacts& facts) {
  return tensor.element_type == ElementType::float32 && !tensor.shape.empty() &&
         tensor.shape.back().kind == Dimension::Kind::fixed && tensor.shape.back().value > 0 &&
         (tensor.shape.size() == 3 || tensor.shape.size() == 2) &&
         reshaped(tensor, facts.rows_shape(static_cast<std::size_t>(tensor.shape.back().value)));
}

// A bias of the linear layer that was added to hidden states before.
std::optional<SymbolicTensor> biased_sum(const SymbolicTensor& tensor, const Constant& bias, KnownFacts& facts) {
  std::string why;
  const Expression* leaf = single_computed(*tensor.expression);
  const auto* sum = leaf == nullptr ? nullptr : facts.as<Sum>(leaf->computed);
  if (sum == nullptr || facts.rows_of(tensor, why) != leaf->computed) return std::nullopt;
  for (const bool is_right : {true, false}) {
    const std::size_t branch = is_right ? sum->right : sum->left;
    const auto* projection = facts.as<Projection>(branch);
    // The stream may be a projection, too, but no result of attention or of an activation.
    if (projection == nullptr || std::holds_alternative<StreamInput>(projection->input)) continue;
    const auto biased = with_bias(facts.whole_rows(branch), bias, facts);
    if (!biased) continue;
    const std::size_t index = single_computed(*biased->expression)->computed;
    const Sum with = is_right ? Sum{sum->left, index} : Sum{index, sum->right};
    return reshaped(facts.whole_rows(facts.add(with)), tensor.shape);
  }
  return std::nullopt;
}

std::optional<SymbolicTensor> settled_sum(const SymbolicTensor& result, const SymbolicTensor& left,
                                          const SymbolicTensor& right, KnownFacts& facts) {
  for (const auto& [one, other] : {std::pair{&left, &right}, {&right, &left}}) {
    if (result.shape.back().kind != Dimension::Kind::fixed || !refers_to_computed(*one->expression)) continue;
    const Constant* vector = facts.vector(*other, static_cast<std::size_t>(result.shape.back().value));
    if (vector == nullptr) continue;
    if (const auto norm = shifted_norm(*one, *vector, facts)) return norm;
    if (const auto biased = with_bias(*one, *vector, facts)) return biased;
    return biased_sum(*one, *vector, facts);
  }
  if (!has_rows_shape(result, facts) || left.shape != right.shape) return std::nullopt;
  const bool is_residual = refers_to_computed(*left.expression) || refers_to_computed(*right.expression);
  if (!is_residual) return std::nullopt;
  std::string why;
  const auto a = facts.rows_of(left, why);
  const auto b = a ? facts.rows_of(right, why) : std::nullopt;
  if (!b) return std::nullopt;
  return reshaped(facts.whole_rows(facts.add(Sum{*a, *b})), result.shape);
}

}  // namespace

std::optional<SymbolicTensor> sum_of(const SymbolicTensor& left, const SymbolicTensor& right, KnownFacts& facts) {
  const Node add{.name = {}, .type = "Add", .domain = {}, .inputs = {}, .outputs = {}, .attributes = {}};
  const auto sum = symbolic_tensor_of(add, {&left, &right});
  if (!sum || sum->shape.empty()) return std::nullopt;
  const auto known = settled_sum(*sum, left, right, facts);
  return known ? known : sum;
}

Fact settled(const Node& node, SymbolicTensor result, KnownFacts& facts) {
  static constexpr std::array types{"Add", "Mul", "Div"};
  const bool is_candidate = node.domain.empty() || node.domain == "ai.onnx";
  if (!is_candidate || node.inputs.size() != 2 || result.element_type != ElementType::float32 ||
      std::ranges::find(types, node.type) == types.end() || result.shape.empty() ||
      !refers_to_computed(*result.expression)) {
    return result;
  }
  const SymbolicTensor &left = *facts.tensor(node.inputs[0]), &right = *facts.tensor(node.inputs[1]);
  if (node.type == "Add") {
    const auto sum = settled_sum(result, left, right, facts);
    if (sum) return *sum;
  }
  if (refers_to_mean(*result.expression, facts)) {
    const auto norm = norm_of(result, facts);
    if (norm) return *norm;
  }
  if (node.type == "Mul" && result.shape.back().kind == Dimension::Kind::fixed) {
    const auto columns = static_cast<std::size_t>(result.shape.back().value);
    for (const auto& [one, other] : {std::pair{&left, &right}, {&right, &left}}) {
      if (!refers_to_computed(*one->expression)) continue;
      const Constant* vector = facts.vector(*other, columns);
      const auto norm = vector == nullptr ? std::nullopt : scaled_norm(*one, *vector, facts);
      if (norm) return *norm;
    }
  }
  return result;
}

}  // namespace gpux_cpu::encoder
