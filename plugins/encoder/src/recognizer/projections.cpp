// Linear layers, GELUs and residual sums.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "recognizer/known_facts.h"

namespace gpux_encoder {
namespace {

ExpressionPointer float32_literal(double value) {
  return literal(static_cast<double>(static_cast<float>(value)), ElementType::float32);
}

ExpressionPointer variable() {
  static const ExpressionPointer x = [] {
    Expression result;
    result.kind = Expression::Kind::input;
    result.element_type = ElementType::float32;
    return std::make_shared<const Expression>(std::move(result));
  }();
  return x;
}

double at(const Expression& function, double x) {
  return evaluate(function, {}, [x](const Expression& /*leaf*/) { return x; });
}

// Compares functions at dense points around 0, where they bend, and at some far points.
bool is_near(const Expression& function, Activation activation) {
  const auto expected = [activation](double x) {
    if (activation == Activation::gelu) return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  };
  const auto is_near_at = [&](double x) {
    const double value = at(function, static_cast<double>(static_cast<float>(x)));
    return std::abs(value - expected(x)) <= 3e-6 * std::max(1.0, std::abs(x));
  };
  for (int step = -1200; step <= 1200; ++step) {
    if (!is_near_at(step / 100.0)) return false;
  }
  return std::ranges::all_of(std::initializer_list<double>{-1e4, -300, -50, -20, 20, 50, 300, 1e4}, is_near_at);
}

std::optional<Activation> activation_of(const Expression& function) {
  for (const Activation one : {Activation::gelu, Activation::tanh_gelu}) {
    if (is_near(function, one)) return one;
  }
  return std::nullopt;
}

// An elementwise operator of a projection and constants.
Fact elementwise(const Node& node, const KnownFacts& facts) {
  Elementwise found;
  std::vector<SymbolicTensor> tensors(node.inputs.size());
  std::vector<const SymbolicTensor*> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::string& name = facts.origin(node.inputs[i]);
    const auto* projection = facts.as<Projection>(name);
    const auto* before = facts.as<Elementwise>(name);
    if (projection != nullptr || before != nullptr) {
      const std::string& of = before != nullptr ? before->of : name;
      if (!found.of.empty() && found.of != of) return Unknown{};
      found.of = of;
      found.projection = before != nullptr ? before->projection : *projection;
      tensors[i] = SymbolicTensor{{}, ElementType::float32, before != nullptr ? before->function : variable()};
    } else {
      const auto scalar = facts.scalar(name);
      if (!scalar) return Unknown{};
      const auto* tensor = facts.as<SymbolicTensor>(name);
      tensors[i] = SymbolicTensor{{}, tensor->element_type, literal(*scalar, tensor->element_type)};
    }
    inputs.push_back(&tensors[i]);
  }
  if (found.of.empty()) return Unknown{};
  const auto result = symbolic_tensor_of(node, inputs);
  if (!result || result->element_type != ElementType::float32) return Unknown{};
  found.function = result->expression;
  return found;
}

// Gelu of ONNX, and com.microsoft's with and without a bias.
Fact gelu(const Node& node, const KnownFacts& facts) {
  const auto* projection = facts.as<Projection>(node.inputs[0]);
  if (projection == nullptr) return Unknown{};
  const auto approximate = node.attributes.find("approximate");
  const bool is_tanh =
      node.type == "FastGelu" || (approximate != node.attributes.end() && approximate->second.text == "tanh");
  Projection with = *projection;
  const bool has_bias = node.inputs.size() > 1 && !node.inputs[1].empty();
  if (has_bias) {
    const Constant* bias = facts.weights(node.inputs[1], 1);
    const auto biased = bias == nullptr ? std::nullopt : with_bias(*projection, *bias);
    if (!biased) return unknown(node, "has a bias that does not fit");
    with = *biased;
  }
  return Elementwise{node.outputs.front(), with,
                     gelu_of(is_tanh ? Activation::tanh_gelu : Activation::gelu, variable())};
}

Fact add(const Node& node, const KnownFacts& facts) {
  for (const auto& [first, second] : {std::pair{0, 1}, {1, 0}}) {
    const std::string &left = node.inputs[static_cast<std::size_t>(first)],
                      &right = node.inputs[static_cast<std::size_t>(second)];
    if (const auto* projection = facts.as<Projection>(left)) {
      if (const Constant* bias = facts.weights(right, 1); bias != nullptr && bias->count() > 1) {
        const auto biased = with_bias(*projection, *bias);
        return biased ? Fact(*biased) : unknown(node, "adds a second bias, or one that does not fit");
      }
      if (const auto* residual = facts.as<HiddenStates>(right)) {
        if (residual->order != projection->order) return unknown(node, "adds rows of another axis order");
        return ResidualSum{*projection, residual->index, residual->order};
      }
    }
    if (const auto* sum = facts.as<ResidualSum>(left)) {
      const Constant* bias = facts.weights(right, 1);
      const auto biased = bias == nullptr ? std::nullopt : with_bias(sum->projection, *bias);
      if (!biased) return unknown(node, "adds something unknown to a sum of rows");
      return ResidualSum{*biased, sum->residual, sum->order};
    }
  }
  return elementwise(node, facts);
}

Fact matmul(const Node& node, const KnownFacts& facts) {
  const bool is_fused = node.type == "FusedMatMul";
  if (is_fused && (integer(node, "transA", 0) != 0 || integer(node, "transBatchA", 0) != 0 ||
                   integer(node, "transBatchB", 0) != 0)) {
    return Unknown{};
  }
  const Constant* weights = facts.weights(node.inputs[1], 2);
  if (weights == nullptr) return Unknown{};
  const auto alpha = node.attributes.find("alpha");
  if (is_fused && alpha != node.attributes.end() && alpha->second.number != 1) {
    return unknown(node, "multiplies weights by a factor");
  }
  const bool is_transposed = is_fused && integer(node, "transB", 0) != 0;
  const auto columns = static_cast<std::size_t>(weights->shape[is_transposed ? 0 : 1]);
  const auto projection = projection_of(facts, node.inputs[0], {weights, is_transposed, 0, columns, nullptr, 0});
  if (projection) return *projection;
  if (facts.as<Elementwise>(node.inputs[0]) != nullptr) {
    return unknown(node, "multiplies the result of something else than a GELU");
  }
  if (facts.as<Projection>(node.inputs[0]) != nullptr) {
    return unknown(node, "follows another linear layer without an activation");
  }
  const bool is_rows =
      facts.as<HiddenStates>(node.inputs[0]) != nullptr || facts.as<Context>(node.inputs[0]) != nullptr;
  return is_rows ? unknown(node, "multiplies rows of another size or axis order than its weights need") : Unknown{};
}

Fact gemm(const Node& node, const KnownFacts& facts) {
  const auto factor = [&](const char* name) {
    const auto found = node.attributes.find(name);
    return found == node.attributes.end() ? 1.0F : found->second.number;
  };
  const Constant* weights = facts.weights(node.inputs[1], 2);
  if (weights == nullptr) return Unknown{};
  const bool is_plain = factor("alpha") == 1 && factor("beta") == 1 && integer(node, "transA", 0) == 0;
  const bool is_transposed = integer(node, "transB", 0) != 0;
  const auto columns = static_cast<std::size_t>(weights->shape[is_transposed ? 0 : 1]);
  const auto projection = projection_of(facts, node.inputs[0], {weights, is_transposed, 0, columns, nullptr, 0});
  if (!projection) return Unknown{};
  if (!is_plain) return unknown(node, "multiplies by a factor, or transposed rows");
  if (projection->order != axis_order::tokens_hidden) return unknown(node, "is over rows of another axis order");
  if (node.inputs.size() < 3 || node.inputs[2].empty()) return *projection;
  const Constant* bias = facts.weights(node.inputs[2], 1);
  const auto biased = bias == nullptr ? std::nullopt : with_bias(*projection, *bias);
  return biased ? Fact(*biased) : unknown(node, "has a bias that does not fit");
}

}  // namespace

ExpressionPointer gelu_of(Activation activation, const ExpressionPointer& x) {
  const auto make = [](Operation operation, std::vector<ExpressionPointer> arguments) {
    return apply(operation, ElementType::float32, std::move(arguments));
  };
  ExpressionPointer inner;
  if (activation == Activation::gelu) {
    inner = make(Operation::erf, {make(Operation::divide, {x, float32_literal(std::numbers::sqrt2)})});
  } else {
    const ExpressionPointer cube =
        make(Operation::multiply, {make(Operation::power, {x, float32_literal(3)}), float32_literal(0.044715)});
    inner = make(Operation::tanh, {make(Operation::multiply, {make(Operation::add, {x, cube}),
                                                              float32_literal(std::sqrt(2 / std::numbers::pi))})});
  }
  return make(Operation::multiply, {make(Operation::multiply, {x, make(Operation::add, {inner, float32_literal(1)})}),
                                    float32_literal(0.5)});
}

Projection columns_of(const Projection& projection, std::size_t first, std::size_t count) {
  Projection part = projection;
  part.linear.first_column += first;
  part.linear.first_bias += first;
  part.linear.columns = count;
  return part;
}

std::optional<Projection> with_bias(const Projection& projection, const Constant& bias) {
  if (projection.linear.bias != nullptr || bias.element_type != ElementType::float32 || bias.shape.size() != 1 ||
      bias.count() != projection.linear.columns) {
    return std::nullopt;
  }
  Projection with = projection;
  with.linear.bias = &bias;
  with.linear.first_bias = 0;
  return with;
}

std::optional<Projection> projection_of(const KnownFacts& facts, const std::string& rows,
                                        const RecognizedLinear& linear) {
  if (const auto* hidden = facts.as<HiddenStates>(rows)) {
    if (linear.inner() != facts.hidden_size) return std::nullopt;
    return Projection{Projection::Of::hidden, hidden->index, linear, {}, Activation::gelu, nullptr, hidden->order};
  }
  if (const auto* context = facts.as<Context>(rows)) {
    if ((context->order != axis_order::batch_sequence_hidden && context->order != axis_order::tokens_hidden) ||
        linear.inner() != context->value.linear.columns) {
      return std::nullopt;
    }
    return Projection{Projection::Of::context, context->scores.query.hidden_index,        linear,        {},
                      Activation::gelu,        std::make_shared<const Context>(*context), context->order};
  }
  const auto* intermediate = facts.as<Elementwise>(rows);
  if (intermediate == nullptr || intermediate->projection.of != Projection::Of::hidden ||
      linear.inner() != intermediate->projection.linear.columns) {
    return std::nullopt;
  }
  const auto activation = activation_of(*intermediate->function);
  if (!activation) return std::nullopt;
  return Projection{Projection::Of::intermediate,
                    intermediate->projection.hidden_index,
                    linear,
                    intermediate->projection.linear,
                    *activation,
                    nullptr,
                    intermediate->projection.order};
}

Fact derive_projection(const Node& node, const KnownFacts& facts) {
  if (node.inputs.empty()) return Unknown{};
  const bool is_microsoft = node.domain == "com.microsoft";
  const std::size_t count = node.inputs.size();
  if (node.type == "Gelu" || (is_microsoft && (node.type == "BiasGelu" || node.type == "FastGelu"))) {
    return gelu(node, facts);
  }
  if (count == 2 && (node.type == "MatMul" || (is_microsoft && node.type == "FusedMatMul"))) {
    return matmul(node, facts);
  }
  if (is_microsoft) return Unknown{};
  if (node.type == "Gemm" && count >= 2) return gemm(node, facts);
  if (node.type == "Add" && count == 2) return add(node, facts);
  if (node.type == "Slice" && (count == 4 || count == 5)) {
    const auto* projection = facts.as<Projection>(node.inputs[0]);
    if (projection == nullptr) return Unknown{};
    const auto scalar_input = [&](std::size_t index) { return index < count ? facts.scalar(node.inputs[index]) : 1.0; };
    const auto first = scalar_input(1), last = scalar_input(2), axis = scalar_input(3), step = scalar_input(4);
    const auto columns = static_cast<double>(projection->linear.columns);
    const auto final_axis = static_cast<double>(projection->order.rank()) - 1;
    if (!first || !last || !axis || step != 1.0 || (*axis != -1 && *axis != final_axis) || *first < 0 ||
        *last <= *first) {
      return unknown(node, "slices rows along another axis than the columns");
    }
    const double end = std::min(*last, columns);
    if (end <= *first) return Unknown{};
    return columns_of(*projection, static_cast<std::size_t>(*first), static_cast<std::size_t>(end - *first));
  }
  return elementwise(node, facts);
}

}  // namespace gpux_encoder
