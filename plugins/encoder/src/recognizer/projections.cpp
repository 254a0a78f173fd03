// Rows that are multiplied, go through a GELU and are added to what they began with.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "recognizer/known_facts.h"

namespace gpux_encoder {
namespace {

ExpressionPointer number32(double value) {
  return number(static_cast<double>(static_cast<float>(value)), Element::float32);
}

ExpressionPointer variable() {
  static const ExpressionPointer x = [] {
    Expression made;
    made.kind = Expression::Kind::input;
    made.element = Element::float32;
    return std::make_shared<const Expression>(std::move(made));
  }();
  return x;
}

double at(const Expression& function, double x) {
  return evaluate(function, {}, [x](const Expression& /*leaf*/) { return x; });
}

// Where functions of one number are compared: densely where they bend, and far out.
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

// Through a node that works element by element, with numbers beside the rows.
Meaning elementwise(const Node& node, const Reading& reading) {
  Elementwise found;
  std::vector<Field> fields(node.inputs.size());
  std::vector<const Field*> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::string& name = reading.origin(node.inputs[i]);
    const auto* product = reading.as<Product>(name);
    const auto* before = reading.as<Elementwise>(name);
    if (product != nullptr || before != nullptr) {
      const std::string& of = before != nullptr ? before->of : name;
      if (!found.of.empty() && found.of != of) return Unknown{};
      found.of = of;
      found.product = before != nullptr ? before->product : *product;
      fields[i] = Field{{}, Element::float32, before != nullptr ? before->function : variable()};
    } else {
      const auto scalar = reading.scalar(name);
      if (!scalar) return Unknown{};
      const auto* field = reading.as<Field>(name);
      fields[i] = Field{{}, field->element, number(*scalar, field->element)};
    }
    inputs.push_back(&fields[i]);
  }
  if (found.of.empty()) return Unknown{};
  const auto made = field_of(node, inputs);
  if (!made || made->element != Element::float32) return Unknown{};
  found.function = made->at;
  return found;
}

// Gelu of ONNX, and com.microsoft's with and without a bias.
Meaning gelu(const Node& node, const Reading& reading) {
  const auto* product = reading.as<Product>(node.inputs[0]);
  if (product == nullptr) return Unknown{};
  const auto approximate = node.attributes.find("approximate");
  const bool is_tanh =
      node.type == "FastGelu" || (approximate != node.attributes.end() && approximate->second.text == "tanh");
  Product with = *product;
  const bool has_bias = node.inputs.size() > 1 && !node.inputs[1].empty();
  if (has_bias) {
    const Constant* bias = reading.weights(node.inputs[1], 1);
    const auto biased = bias == nullptr ? std::nullopt : with_bias(*product, *bias);
    if (!biased) return unknown(node, "has a bias that does not fit");
    with = *biased;
  }
  return Elementwise{node.outputs.front(), with,
                     gelu_of(is_tanh ? Activation::tanh_gelu : Activation::gelu, variable())};
}

Meaning add(const Node& node, const Reading& reading) {
  for (const auto& [first, second] : {std::pair{0, 1}, {1, 0}}) {
    const std::string &left = node.inputs[static_cast<std::size_t>(first)],
                      &right = node.inputs[static_cast<std::size_t>(second)];
    if (const auto* product = reading.as<Product>(left)) {
      if (const Constant* bias = reading.weights(right, 1); bias != nullptr && bias->count() > 1) {
        const auto biased = with_bias(*product, *bias);
        return biased ? Meaning(*biased) : unknown(node, "adds a second bias, or one that does not fit");
      }
      if (const auto* residual = reading.as<Hidden>(right)) {
        if (residual->order != product->order) return unknown(node, "adds rows of another order");
        return Sum{*product, residual->index, residual->order};
      }
    }
    if (const auto* sum = reading.as<Sum>(left)) {
      const Constant* bias = reading.weights(right, 1);
      const auto biased = bias == nullptr ? std::nullopt : with_bias(sum->product, *bias);
      if (!biased) return unknown(node, "adds something unknown to a sum of rows");
      return Sum{*biased, sum->residual, sum->order};
    }
  }
  return elementwise(node, reading);
}

Meaning matmul(const Node& node, const Reading& reading) {
  const bool is_fused = node.type == "FusedMatMul";
  if (is_fused && (integer(node, "transA", 0) != 0 || integer(node, "transBatchA", 0) != 0 ||
                   integer(node, "transBatchB", 0) != 0)) {
    return Unknown{};
  }
  const Constant* weights = reading.weights(node.inputs[1], 2);
  if (weights == nullptr) return Unknown{};
  const auto alpha = node.attributes.find("alpha");
  if (is_fused && alpha != node.attributes.end() && alpha->second.number != 1) {
    return unknown(node, "multiplies weights by a number");
  }
  const bool is_turned = is_fused && integer(node, "transB", 0) != 0;
  const auto columns = static_cast<std::size_t>(weights->shape[is_turned ? 0 : 1]);
  const auto product = product_of(reading, node.inputs[0], {weights, is_turned, 0, columns, nullptr, 0});
  if (product) return *product;
  if (reading.as<Elementwise>(node.inputs[0]) != nullptr) {
    return unknown(node, "multiplies what went through something else than a GELU");
  }
  if (reading.as<Product>(node.inputs[0]) != nullptr) {
    return unknown(node, "multiplies what was multiplied already");
  }
  const bool is_rows = reading.as<Hidden>(node.inputs[0]) != nullptr || reading.as<Context>(node.inputs[0]) != nullptr;
  return is_rows ? unknown(node, "multiplies rows of another width or order than its weights have") : Unknown{};
}

Meaning gemm(const Node& node, const Reading& reading) {
  const auto factor = [&](const char* name) {
    const auto found = node.attributes.find(name);
    return found == node.attributes.end() ? 1.0F : found->second.number;
  };
  const Constant* weights = reading.weights(node.inputs[1], 2);
  if (weights == nullptr) return Unknown{};
  const bool is_plain = factor("alpha") == 1 && factor("beta") == 1 && integer(node, "transA", 0) == 0;
  const bool is_turned = integer(node, "transB", 0) != 0;
  const auto columns = static_cast<std::size_t>(weights->shape[is_turned ? 0 : 1]);
  const auto product = product_of(reading, node.inputs[0], {weights, is_turned, 0, columns, nullptr, 0});
  if (!product) return Unknown{};
  if (!is_plain) return unknown(node, "multiplies by a number, or turned rows");
  if (product->order != "rw") return unknown(node, "is over rows of another order");
  if (node.inputs.size() < 3 || node.inputs[2].empty()) return *product;
  const Constant* bias = reading.weights(node.inputs[2], 1);
  const auto biased = bias == nullptr ? std::nullopt : with_bias(*product, *bias);
  return biased ? Meaning(*biased) : unknown(node, "has a bias that does not fit");
}

}  // namespace

ExpressionPointer gelu_of(Activation activation, const ExpressionPointer& x) {
  const auto make = [](Operation operation, std::vector<ExpressionPointer> arguments) {
    return apply(operation, Element::float32, std::move(arguments));
  };
  ExpressionPointer bent;
  if (activation == Activation::gelu) {
    bent = make(Operation::error_function, {make(Operation::divide, {x, number32(std::numbers::sqrt2)})});
  } else {
    const ExpressionPointer cube =
        make(Operation::multiply, {make(Operation::power, {x, number32(3)}), number32(0.044715)});
    bent =
        make(Operation::tangent,
             {make(Operation::multiply, {make(Operation::add, {x, cube}), number32(std::sqrt(2 / std::numbers::pi))})});
  }
  return make(Operation::multiply,
              {make(Operation::multiply, {x, make(Operation::add, {bent, number32(1)})}), number32(0.5)});
}

Product columns_of(const Product& product, std::size_t first, std::size_t count) {
  Product part = product;
  part.linear.first_column += first;
  part.linear.first_bias += first;
  part.linear.columns = count;
  return part;
}

std::optional<Product> with_bias(const Product& product, const Constant& bias) {
  if (product.linear.bias != nullptr || bias.element != Element::float32 || bias.shape.size() != 1 ||
      bias.count() != product.linear.columns) {
    return std::nullopt;
  }
  Product with = product;
  with.linear.bias = &bias;
  with.linear.first_bias = 0;
  return with;
}

std::optional<Product> product_of(const Reading& reading, const std::string& rows, const FoundLinear& linear) {
  if (const auto* hidden = reading.as<Hidden>(rows)) {
    if (linear.inner() != reading.width) return std::nullopt;
    return Product{Product::Of::hidden, hidden->index, linear, {}, Activation::gelu, nullptr, hidden->order};
  }
  if (const auto* context = reading.as<Context>(rows)) {
    if ((context->order != "bsw" && context->order != "rw") || linear.inner() != context->value.linear.columns) {
      return std::nullopt;
    }
    return Product{Product::Of::context,
                   context->scores.query.hidden,
                   linear,
                   {},
                   Activation::gelu,
                   std::make_shared<const Context>(*context),
                   context->order};
  }
  const auto* wide = reading.as<Elementwise>(rows);
  if (wide == nullptr || wide->product.of != Product::Of::hidden || linear.inner() != wide->product.linear.columns) {
    return std::nullopt;
  }
  const auto activation = activation_of(*wide->function);
  if (!activation) return std::nullopt;
  return Product{Product::Of::wide, wide->product.hidden, linear, wide->product.linear, *activation,
                 nullptr,           wide->product.order};
}

Meaning read_rows(const Node& node, const Reading& reading) {
  if (node.inputs.empty()) return Unknown{};
  const bool is_microsoft = node.domain == "com.microsoft";
  const std::size_t count = node.inputs.size();
  if (node.type == "Gelu" || (is_microsoft && (node.type == "BiasGelu" || node.type == "FastGelu"))) {
    return gelu(node, reading);
  }
  if (count == 2 && (node.type == "MatMul" || (is_microsoft && node.type == "FusedMatMul"))) {
    return matmul(node, reading);
  }
  if (is_microsoft) return Unknown{};
  if (node.type == "Gemm" && count >= 2) return gemm(node, reading);
  if (node.type == "Add" && count == 2) return add(node, reading);
  if (node.type == "Slice" && (count == 4 || count == 5)) {
    const auto* product = reading.as<Product>(node.inputs[0]);
    if (product == nullptr) return Unknown{};
    const auto number = [&](std::size_t index) { return index < count ? reading.scalar(node.inputs[index]) : 1.0; };
    const auto first = number(1), last = number(2), axis = number(3), step = number(4);
    const auto columns = static_cast<double>(product->linear.columns);
    const auto final_axis = static_cast<double>(product->order.size()) - 1;
    if (!first || !last || !axis || step != 1.0 || (*axis != -1 && *axis != final_axis) || *first < 0 ||
        *last <= *first) {
      return unknown(node, "cuts rows in another way than by columns");
    }
    const double end = std::min(*last, columns);
    if (end <= *first) return Unknown{};
    return columns_of(*product, static_cast<std::size_t>(*first), static_cast<std::size_t>(end - *first));
  }
  return elementwise(node, reading);
}

}  // namespace gpux_encoder
