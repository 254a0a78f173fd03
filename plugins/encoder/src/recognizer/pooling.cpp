// Pooling of hidden states into vectors: sums, counts and lengths, and what expressions of them are.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "recognizer/known_facts.h"

namespace gpux_cpu::encoder {
namespace {

constexpr double max_norm_epsilon = 1e-6;

bool refers_to_computed(const Expression& expression) {
  return contains(expression, [](const Expression& one) { return one.kind == Expression::Kind::computed; });
}

bool is_axis(const std::optional<std::vector<std::int64_t>>& axes, std::size_t axis, std::size_t rank) {
  return axes && axes->size() == 1 && axis_of(axes->front(), rank) == axis;
}

// The shape after a reduction of axis 1.
Shape reduced(const SymbolicTensor& tensor, bool keeps) {
  Shape shape = tensor.shape;
  shape[1] = fixed(1);
  if (!keeps) shape.erase(shape.begin() + 1);
  return shape;
}

// [text] or [text, column] of a computed value, for a result of a reduction of axis 1.
SymbolicTensor of_text(const SymbolicTensor& tensor, bool keeps, std::size_t computed, bool has_columns) {
  std::vector<ExpressionPointer> indices{axis_index(0)};
  if (has_columns) indices.push_back(axis_index(keeps ? 2 : 1));
  return {reduced(tensor, keeps), tensor.element_type,
          computed_element(computed, tensor.element_type, std::move(indices))};
}

// The length of each vector of [batch, columns].
Fact length(const Node& node, const SymbolicTensor& tensor, const std::optional<std::vector<std::int64_t>>& axes,
            KnownFacts& facts) {
  const bool is_vector = tensor.shape.size() == 2 && tensor.shape[0] == facts.batch && is_axis(axes, 1, 2) &&
                         refers_to_computed(*tensor.expression);
  if (!is_vector) return Unknown{};
  ExpressionPointer of = tensor.expression;
  const bool is_sum = node.type == "ReduceSum";
  if (is_sum) {
    const bool is_square = (of->is(Operation::power) && literal_value(of->arguments[1]) == 2.0) ||
                           (of->is(Operation::multiply) && same(*of->arguments[0], *of->arguments[1]));
    if (!is_square) return Unknown{};
    of = of->arguments[0];
  }
  const std::size_t index = is_sum ? facts.add(SquaredLength{of}) : facts.add(Length{of});
  return of_text(tensor, integer(node, "keepdims", 1) == 1, index, false);
}

Fact sum(const Node& node, KnownFacts& facts) {
  const SymbolicTensor* of = facts.input(node, 0);
  const auto axes = facts.axes(node);
  if (of == nullptr || of->shape.size() < 2) return Unknown{};
  const bool keeps = integer(node, "keepdims", 1) == 1;
  const bool is_over_tokens =
      of->shape[0] == facts.batch && of->shape[1] == facts.sequence && is_axis(axes, 1, of->shape.size());
  if (is_over_tokens) {
    if (const auto bits = bits_of(*of, facts)) return of_text(*of, keeps, facts.add(TokenCount{*bits}), false);
    std::string why;
    const auto rows =
        of->shape.size() == 3 && single_computed(*of->expression) != nullptr ? facts.rows_of(*of, why) : std::nullopt;
    const auto* masked = rows ? facts.as<MaskedRows>(*rows) : nullptr;
    if (masked != nullptr) return of_text(*of, keeps, facts.add(RowSum{masked->of, masked->mask}), true);
  }
  return length(node, *of, axes, facts);
}

Fact lp_normalization(const Node& node, KnownFacts& facts) {
  const SymbolicTensor* of = facts.input(node, 0);
  if (of == nullptr || integer(node, "p", 2) != 2 || of->shape.size() != 2) return Unknown{};
  const std::vector<std::int64_t> axes{integer(node, "axis", -1)};
  if (!is_axis(axes, 1, 2) || !refers_to_computed(*of->expression)) return Unknown{};
  const ExpressionPointer norm =
      computed_element(facts.add(Length{of->expression}), ElementType::float32, {axis_index(0)});
  const ExpressionPointer guarded =
      apply(Operation::maximum, ElementType::float32, {norm, literal(1e-12, ElementType::float32)});
  return SymbolicTensor{of->shape, ElementType::float32,
                        apply(Operation::divide, ElementType::float32, {of->expression, guarded})};
}

// An expression of [text, token] as a function of the token's mask bit.
ExpressionPointer with_bit(const ExpressionPointer& expression, double bit, std::string& input, bool& is_single) {
  return substitute(expression, {}, [&](const Expression& leaf) -> ExpressionPointer {
    if (leaf.kind != Expression::Kind::input) return nullptr;
    const bool is_own = is_axis_index(leaf.arguments[0], 0) && is_axis_index(leaf.arguments[1], 1);
    is_single = is_single && is_own && (input.empty() || input == leaf.name);
    input = leaf.name;
    return literal(bit, ElementType::int64);
  });
}

// The largest of the indices of unmasked tokens.
Fact last_token(const SymbolicTensor& of, bool keeps, KnownFacts& facts) {
  if (of.shape != Shape{facts.batch, facts.sequence}) return Unknown{};
  std::string input;
  bool is_single = true;
  const ExpressionPointer unmasked = with_bit(of.expression, 1, input, is_single);
  const auto masked = literal_value(with_bit(of.expression, 0, input, is_single));
  if (!is_single || input.empty() || input == facts.input_ids || !is_axis_index(unmasked, 1) || !masked || *masked > 0)
    return Unknown{};
  if (facts.input_ids.empty()) facts.masks_before_input_ids.insert(input);
  return of_text(of, keeps, facts.add(LastToken{{input, std::nullopt}}), false);
}

constexpr std::array logits_to_try{-50.0, -1.0, 0.0, 0.25, 1.0, 7.5, 300.0};

// Whether a function of logits is log(1 + relu(logit)) or, with a second one, log(1 + that); empty if it is neither.
template <typename Function>
std::optional<bool> has_second_log(const Function& function) {
  for (const bool has_second : {false, true}) {
    const bool is_it = std::ranges::all_of(logits_to_try, [&](double x) {
      const double first = std::log1p(std::max(x, 0.0));
      return std::abs(function(x) - (has_second ? std::log1p(first) : first)) <= 1e-5;
    });
    if (is_it) return has_second;
  }
  return std::nullopt;
}

// log(1 + relu(logits)) times the mask, or the logits where the mask is 1 and a low number elsewhere.
Fact splade(const SymbolicTensor& of, bool keeps, KnownFacts& facts) {
  if (of.shape.size() != 3 || of.shape[0] != facts.batch || of.shape[1] != facts.sequence) return Unknown{};
  const Expression* leaf = single_computed(*of.expression);
  if (leaf == nullptr || facts.as<Projection>(leaf->computed) == nullptr) return Unknown{};
  std::string why, input;
  const SymbolicTensor logits{of.shape, ElementType::float32,
                              computed_element(leaf->computed, ElementType::float32, leaf->arguments)};
  if (facts.rows_of(logits, why) != leaf->computed) return Unknown{};
  bool is_single = true;
  const ExpressionPointer unmasked = with_bit(of.expression, 1, input, is_single),
                          masked = with_bit(of.expression, 0, input, is_single);
  if (!is_single || input.empty() || input == facts.input_ids) return Unknown{};
  const MaskSource mask{input, std::nullopt};
  const auto of_logit = [](const ExpressionPointer& expression) {
    return [&expression](double x) { return evaluate(*expression, {}, [x](const Expression& /*leaf*/) { return x; }); };
  };
  std::optional<Computed> found;
  if (const auto without = literal_value(masked); without && same(*unmasked, *logits.expression)) {
    found = ColumnMaximum{leaf->computed, mask, *without};
  } else if (const auto has_second = has_second_log(of_logit(unmasked))) {
    const auto hides = [&](double x) { return of_logit(masked)(x) <= 0; };
    if (std::ranges::all_of(logits_to_try, hides)) found = SpladeMaximum{leaf->computed, mask, *has_second};
  }
  if (!found) return Unknown{};
  if (facts.input_ids.empty()) facts.masks_before_input_ids.insert(input);
  return of_text(of, keeps, facts.add(*std::move(found)), true);
}

Fact maximum(const Node& node, KnownFacts& facts) {
  const SymbolicTensor* of = facts.input(node, 0);
  if (of == nullptr || !is_axis(facts.axes(node), 1, of->shape.size())) return Unknown{};
  const bool keeps = integer(node, "keepdims", 1) == 1;
  Fact last = last_token(*of, keeps, facts);
  return std::holds_alternative<Unknown>(last) ? splade(*of, keeps, facts) : last;
}

/// The value of an expression where a part of it and a computed value are replaced by numbers; NaN if it depends on
/// anything else.
struct Replaced {
  const Expression* part;
  double part_value;
  std::size_t computed;
  double computed_value;
  bool is_single_text = false;  ///< the only text has the index 0

  double operator()(const Expression& expression) const {
    if (part != nullptr && same(expression, *part)) return part_value;
    if (expression.kind == Expression::Kind::literal) return expression.value;
    if (expression.kind == Expression::Kind::computed && expression.computed == computed &&
        expression.arguments.size() == 1 && (is_axis_index(expression.arguments[0], 0) || is_single_text)) {
      return computed_value;
    }
    if (expression.kind != Expression::Kind::apply || expression.arguments.size() > 3) return std::nan("");
    std::array<double, 3> arguments{};
    for (std::size_t i = 0; i < expression.arguments.size(); ++i) {
      arguments.at(i) = (*this)(*expression.arguments[i]);
      if (std::isnan(arguments.at(i))) return std::nan("");
    }
    return calculated(expression.operation, expression.element_type,
                      std::span(arguments).first(expression.arguments.size()));
  }
};

bool is_near(double a, double b) {
  return std::abs(a - b) <= 1e-5 * std::max(1e-3, std::abs(b));
}

// A part of the expression, divided by its length, which is guarded against 0.
const Expression* normalized_part(const Expression& expression, const KnownFacts& facts) {
  const Expression* leaf = nullptr;
  (void)contains(expression, [&](const Expression& one) {
    if (one.kind == Expression::Kind::computed &&
        (facts.as<Length>(one.computed) != nullptr || facts.as<SquaredLength>(one.computed) != nullptr)) {
      leaf = &one;
    }
    return leaf != nullptr;
  });
  if (leaf == nullptr) return nullptr;
  const auto* squares = facts.as<SquaredLength>(leaf->computed);
  const Expression* part = squares != nullptr ? squares->of.get() : facts.as<Length>(leaf->computed)->of.get();
  const auto at = [&](double value, double length) {
    return Replaced{part, value, leaf->computed, squares != nullptr ? length * length : length,
                    facts.batch == fixed(1)}(expression);
  };
  for (const double length : {0.01, 0.5, 1.0, 17.0, 900.0}) {
    for (const double value : {-3.0, 0.5, 40.0}) {
      if (!is_near(at(value, length), value / length)) return nullptr;
    }
  }
  // The vector 0 stays 0, by a small number.
  const double guard = at(1, 0);
  return at(0, 0) == 0 && std::isfinite(guard) && guard >= 1 / (max_norm_epsilon * 1.001) ? part : nullptr;
}

std::optional<PooledVectors> mean_of(const Expression& expression, const KnownFacts& facts) {
  const Expression *sum = nullptr, *count = nullptr;
  (void)contains(expression, [&](const Expression& one) {
    if (one.kind != Expression::Kind::computed) return false;
    if (facts.as<RowSum>(one.computed) != nullptr) sum = &one;
    if (facts.as<TokenCount>(one.computed) != nullptr) count = &one;
    return false;
  });
  if (sum == nullptr || count == nullptr || !facts.is_text(sum->arguments[0], 0) ||
      !is_axis_index(sum->arguments[1], 1))
    return std::nullopt;
  const RowSum& rows = *facts.as<RowSum>(sum->computed);
  if (rows.mask != facts.as<TokenCount>(count->computed)->mask) return std::nullopt;
  const auto at = [&](double value, double tokens) {
    return Replaced{sum, value, count->computed, tokens, facts.batch == fixed(1)}(expression);
  };
  for (const double tokens : {1.0, 2.0, 3.0, 7.0, 50.0, 511.0, 8192.0, 32768.0}) {
    for (const double value : {-3.0, 0.5, 700.0}) {
      if (!is_near(at(value, tokens), value / tokens)) return std::nullopt;
    }
  }
  if (at(0, 0) != 0) return std::nullopt;
  return PooledVectors{rows.of, Pooling::mean, rows.mask, false};
}

// An element of a constant at the index of the column, whatever axes of size 1 it has before; null if it is another.
const Constant* column_constant(const Expression& expression, std::size_t columns) {
  if (expression.kind != Expression::Kind::table || expression.element_type != ElementType::float32) return nullptr;
  const std::vector<ExpressionPointer>& indices = expression.arguments;
  const bool is_of_column = !indices.empty() && is_axis_index(indices.back(), 1) &&
                            std::all_of(indices.begin(), indices.end() - 1,
                                        [](const ExpressionPointer& index) { return literal_value(index) == 0.0; });
  return is_of_column && expression.constant->count() == columns ? expression.constant : nullptr;
}

/// A function of the maximum of a column and of a constant of the column; NaN if it depends on anything else.
struct ColumnFunctionOfMaximum {
  const KnownFacts& facts;
  std::size_t maximum;
  const Constant* bias;

  double operator()(const Expression& expression, double maximum_value, double bias_value) const {
    switch (expression.kind) {
      case Expression::Kind::literal:
        return expression.value;
      case Expression::Kind::computed: {
        const bool is_maximum = expression.computed == maximum && facts.is_text(expression.arguments[0], 0) &&
                                is_axis_index(expression.arguments[1], 1);
        return is_maximum ? maximum_value : std::nan("");
      }
      case Expression::Kind::table:
        return bias != nullptr && column_constant(expression, bias->count()) == bias ? bias_value : std::nan("");
      case Expression::Kind::apply:
        break;
      default:
        return std::nan("");
    }
    std::array<double, 3> arguments{};
    if (expression.arguments.size() > arguments.size()) return std::nan("");
    for (std::size_t i = 0; i < expression.arguments.size(); ++i) {
      arguments.at(i) = (*this)(*expression.arguments[i], maximum_value, bias_value);
      if (std::isnan(arguments.at(i))) return std::nan("");
    }
    return calculated(expression.operation, expression.element_type,
                      std::span(arguments).first(expression.arguments.size()));
  }
};

// log(1 + relu(maximum + bias)), or log(1 + that).
std::optional<PooledVectors> splade_after_maximum(const Expression& expression, const KnownFacts& facts) {
  const Expression* leaf = single_computed(expression);
  const auto* maximum = leaf == nullptr ? nullptr : facts.as<ColumnMaximum>(leaf->computed);
  if (maximum == nullptr) return std::nullopt;
  const std::size_t columns = facts.columns_of(maximum->of);
  const Constant* bias = nullptr;
  (void)contains(expression, [&](const Expression& one) {
    bias = column_constant(one, columns);
    return bias != nullptr;
  });
  const ColumnFunctionOfMaximum function{facts, leaf->computed, bias};
  std::optional<bool> has_second;
  for (const double added : {-3.0, 0.0, 0.5}) {
    if (bias == nullptr && added != 0) continue;
    const auto of_sum = has_second_log([&](double x) { return function(expression, x - added, added); });
    if (!of_sum || (has_second && has_second != of_sum)) return std::nullopt;
    has_second = of_sum;
  }
  // A text without tokens has the vector 0.
  double largest = 0;
  for (std::size_t i = 0; bias != nullptr && i < columns; ++i) largest = std::max(largest, element_of(*bias, i));
  if (!(function(expression, maximum->without, largest) == 0)) return std::nullopt;
  return PooledVectors{.rows = maximum->of,
                       .pooling = Pooling::splade,
                       .mask = maximum->mask,
                       .has_second_log = has_second.value_or(false),
                       .logit_bias = bias};
}

}  // namespace

std::optional<PooledVectors> pooled_vectors_of(const ExpressionPointer& expression, const KnownFacts& facts) {
  if (const Expression* part = normalized_part(*expression, facts)) {
    auto vectors = pooled_vectors_of(std::make_shared<const Expression>(*part), facts);
    if (!vectors || vectors->normalize) return std::nullopt;
    vectors->normalize = true;
    return vectors;
  }
  const Expression& leaf = *expression;
  if (leaf.kind != Expression::Kind::computed) {
    const auto sparse = splade_after_maximum(leaf, facts);
    return sparse ? sparse : mean_of(leaf, facts);
  }
  if (!facts.is_text(leaf.arguments[0], 0) || !is_axis_index(leaf.arguments.back(), 1)) return std::nullopt;
  if (const auto* maximum = facts.as<SpladeMaximum>(leaf.computed))
    return PooledVectors{.rows = maximum->of,
                         .pooling = Pooling::splade,
                         .mask = maximum->mask,
                         .has_second_log = maximum->has_second_log};
  if (leaf.arguments.size() != 3) return std::nullopt;
  const Expression& token = *leaf.arguments[1];
  if (literal_value(leaf.arguments[1]) == 0.0) return PooledVectors{leaf.computed, Pooling::cls, {}, false};
  const auto* last = token.kind == Expression::Kind::computed ? facts.as<LastToken>(token.computed) : nullptr;
  if (last == nullptr || !facts.is_text(token.arguments[0], 0)) return std::nullopt;
  return PooledVectors{leaf.computed, Pooling::last, last->mask, false};
}

Fact derive_pooling(const Node& node, KnownFacts& facts) {
  if (node.inputs.empty() || (!node.domain.empty() && node.domain != "ai.onnx")) return Unknown{};
  if (node.type == "ReduceSum") return sum(node, facts);
  if (node.type == "ReduceMax") return maximum(node, facts);
  if (node.type == "LpNormalization") return lp_normalization(node, facts);
  if (node.type == "ReduceL2") {
    const SymbolicTensor* of = facts.input(node, 0);
    return of == nullptr ? Fact(Unknown{}) : length(node, *of, facts.axes(node), facts);
  }
  return Unknown{};
}

}  // namespace gpux_cpu::encoder
