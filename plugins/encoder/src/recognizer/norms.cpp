// Layer normalization and RMS normalization: one node, fused with a residual sum or with the embeddings, or single
// operators.
#include <array>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "recognizer/known_facts.h"

namespace gpux_cpu::encoder {
namespace {

// A projection's columns as heads, in a tensor of rank 4, and the axes of its tokens and heads.
struct HeadColumns {
  ProjectionColumns projection;
  std::size_t num_heads = 0, token_axis = 0, head_axis = 0;
};

std::optional<HeadColumns> head_columns_of(const SymbolicTensor& tensor, const KnownFacts& facts) {
  const Expression& leaf = *tensor.expression;
  if (tensor.shape.size() != 4 || leaf.kind != Expression::Kind::computed ||
      facts.as<Projection>(leaf.computed) == nullptr || !facts.is_text(leaf.arguments[0], 0)) {
    return std::nullopt;
  }
  HeadColumns found;
  found.token_axis = is_axis_index(leaf.arguments[1], 1) ? 1 : 2;
  found.head_axis = 3 - found.token_axis;
  const Dimension &heads = tensor.shape[found.head_axis], &size = tensor.shape[3];
  if (!is_axis_index(leaf.arguments[1], found.token_axis) || heads.kind != Dimension::Kind::fixed ||
      size.kind != Dimension::Kind::fixed) {
    return std::nullopt;
  }
  std::array<double, 4> indices{std::nan(""), std::nan(""), std::nan(""), std::nan("")};
  double first = 0;
  for (std::int64_t head = 0; head < heads.value; ++head) {
    for (std::int64_t column = 0; column < size.value; ++column) {
      indices[found.head_axis] = static_cast<double>(head);
      indices[3] = static_cast<double>(column);
      const auto at = known_value(*leaf.arguments[2], indices);
      if (!at) return std::nullopt;
      if (head == 0 && column == 0) first = *at;
      if (*at != first + static_cast<double>(head * size.value + column)) return std::nullopt;
    }
  }
  found.projection = {leaf.computed, static_cast<std::size_t>(first)};
  found.num_heads = static_cast<std::size_t>(heads.value);
  return found;
}

// A norm of rows, or of the heads of a projection.
std::optional<SymbolicTensor> normalized(const SymbolicTensor& of, RecognizedNorm norm, KnownFacts& facts,
                                         std::string& why) {
  norm.size = static_cast<std::size_t>(of.shape.back().value);
  if (const auto heads = head_columns_of(of, facts)) {
    const std::size_t index = facts.add(NormalizedHeads{heads->projection, heads->num_heads, norm});
    return SymbolicTensor{
        of.shape, ElementType::float32,
        computed_element(index, ElementType::float32,
                         {axis_index(0), axis_index(heads->token_axis), axis_index(heads->head_axis), axis_index(3)})};
  }
  auto rows = facts.rows_of(of, why);
  if (!rows) {
    const auto whole = reshaped(of, facts.rows_shape(norm.size));
    const auto activated = whole ? intermediate_of(whole->expression, norm.size, facts) : std::nullopt;
    if (!activated) return std::nullopt;
    rows = facts.add(ActivatedRows{*activated});
  }
  return reshaped(facts.whole_rows(facts.add(NormalizedRows{*rows, norm})), of.shape);
}

bool is_normalisable(const SymbolicTensor& tensor) {
  return tensor.element_type == ElementType::float32 && tensor.shape.size() >= 2 &&
         tensor.shape.back().kind == Dimension::Kind::fixed && tensor.shape.back().value > 0;
}

Fact normalized_by(const Node& node, const SymbolicTensor& of, NormKind kind, const std::string& gamma,
                   const std::string& beta, float epsilon, KnownFacts& facts) {
  if (!is_normalisable(of)) return unknown(node, "is not over tensors of [batch, sequence, hidden_size]");
  const auto size = static_cast<std::size_t>(of.shape.back().value);
  const auto vector = [&](const std::string& name) {
    const SymbolicTensor* tensor = facts.tensor(name);
    return tensor == nullptr ? nullptr : facts.vector(*tensor, size);
  };
  RecognizedNorm norm{kind, vector(gamma), beta.empty() ? nullptr : vector(beta), epsilon, size};
  if (norm.gamma == nullptr || (!beta.empty() && norm.beta == nullptr))
    return unknown(node, "has no scale and shift of its own");
  std::string why;
  const auto result = normalized(of, norm, facts, why);
  return result ? Fact(*result) : unknown(node, why);
}

std::string name_of_input(const Node& node, std::size_t index) {
  return index < node.inputs.size() ? node.inputs[index] : std::string();
}

// LayerNormalization, RMSNormalization and SimplifiedLayerNormalization.
Fact whole(const Node& node, NormKind kind, KnownFacts& facts) {
  const SymbolicTensor* of = facts.input(node, 0);
  if (of == nullptr) return Unknown{};
  const std::int64_t axis = integer(node, "axis", -1);
  if (axis != -1 && axis != static_cast<std::int64_t>(of->shape.size()) - 1)
    return unknown(node, "is not along the last axis");
  return normalized_by(node, *of, kind, name_of_input(node, 1),
                       kind == NormKind::layer_norm ? name_of_input(node, 2) : std::string(),
                       number(node, "epsilon", 1e-5F), facts);
}

// com.microsoft SkipLayerNormalization: input, skip, gamma, beta, bias; without beta for RMS.
Fact with_skip(const Node& node, NormKind kind, KnownFacts& facts) {
  const SymbolicTensor *left = facts.input(node, 0), *right = facts.input(node, 1);
  if (left == nullptr || right == nullptr) return Unknown{};
  const bool has_beta = kind == NormKind::layer_norm;
  const std::string bias_name = name_of_input(node, has_beta ? 4 : 3);
  std::optional<SymbolicTensor> sum;
  if (bias_name.empty()) {
    sum = sum_of(*left, *right, facts);
  } else if (const Constant* bias = facts.weights(bias_name, 1)) {
    for (const auto& [one, other] : {std::pair{left, right}, {right, left}}) {
      const auto biased = sum ? std::nullopt : with_bias(*one, *bias, facts);
      if (biased) sum = sum_of(*biased, *other, facts);
    }
  }
  if (!sum) return unknown(node, "adds something unknown");
  if (node.outputs.size() > 3 && !node.outputs[3].empty()) facts.set(node.outputs[3], *sum);
  return normalized_by(node, *sum, kind, name_of_input(node, 2), has_beta ? name_of_input(node, 3) : std::string(),
                       number(node, "epsilon", 1e-12F), facts);
}

// com.microsoft EmbedLayerNormalization: input_ids, segment_ids, word_embedding, position_embedding,
// segment_embedding, gamma, beta, mask, position_ids.
Fact with_embeddings(const Node& node, KnownFacts& facts) {
  const auto is_given = [&](std::size_t index) { return !name_of_input(node, index).empty(); };
  if (node.inputs.size() < 7) return Unknown{};
  const Node gather{.name = node.name, .type = "Gather", .domain = "", .inputs = {}, .outputs = {}, .attributes = {}};
  const Node add{.name = node.name, .type = "Add", .domain = "", .inputs = {}, .outputs = {}, .attributes = {}};
  const SymbolicTensor token_positions{{facts.sequence}, ElementType::int64, axis_index(0)};
  const SymbolicTensor* positions = is_given(8) ? facts.input(node, 8) : &token_positions;
  std::optional<SymbolicTensor> sum;
  for (const auto& [table, rows, may_lack] : {std::tuple{facts.input(node, 2), facts.input(node, 0), false},
                                              {facts.input(node, 3), positions, false},
                                              {facts.input(node, 4), facts.input(node, 1), true}}) {
    if (may_lack && !is_given(1) && !is_given(4)) continue;
    if (table == nullptr || rows == nullptr) return unknown(node, "takes rows of unknown tables");
    const auto taken = symbolic_tensor_of(gather, {table, rows});
    if (!taken) return unknown(node, "takes rows of unknown tables");
    sum = sum ? symbolic_tensor_of(add, {&*sum, &*taken}) : taken;
    if (!sum) return unknown(node, "adds rows that do not fit");
  }
  if (!sum) return Unknown{};
  Fact rows = normalized_by(node, *sum, NormKind::layer_norm, node.inputs[5], node.inputs[6],
                            number(node, "epsilon", 1e-12F), facts);
  const SymbolicTensor* mask = facts.input(node, 7);
  if (mask != nullptr && node.outputs.size() > 1 && mask->shape == Shape{facts.batch, facts.sequence}) {
    if (const auto bits = bits_of(*mask, facts)) {
      const std::size_t count = facts.add(TokenCount{*bits});
      facts.set(node.outputs[1],
                SymbolicTensor{
                    {facts.batch}, ElementType::int32, computed_element(count, ElementType::int32, {axis_index(0)})});
    }
  }
  return rows;
}

Fact mean(const Node& node, KnownFacts& facts) {
  const SymbolicTensor* of = facts.input(node, 0);
  const auto axes = facts.axes(node);
  if (of == nullptr || !axes || axes->size() != 1 || integer(node, "keepdims", 1) != 1 || !is_normalisable(*of))
    return Unknown{};
  const std::size_t last = of->shape.size() - 1;
  if (axis_of(axes->front(), last + 1) != last) return Unknown{};
  SymbolicTensor result = *of;
  result.shape[last] = fixed(1);
  std::vector<ExpressionPointer> indices;
  for (std::size_t axis = 0; axis < last; ++axis) indices.push_back(axis_index(axis));
  result.expression =
      computed_element(facts.add(Mean{of->expression, of->shape}), ElementType::float32, std::move(indices));
  return result;
}

// The parts of an expression x * f(mean of squares), or (x - mean) * f(variance).
struct NormParts {
  ExpressionPointer x;
  std::size_t variance = 0;
  std::optional<std::size_t> center;
  double epsilon = 0;
};

bool is_mean_of_row(const Expression& leaf, const KnownFacts& facts) {
  if (leaf.kind != Expression::Kind::computed || facts.as<Mean>(leaf.computed) == nullptr) return false;
  const Shape& shape = facts.as<Mean>(leaf.computed)->shape;
  for (std::size_t axis = 0; axis < leaf.arguments.size(); ++axis) {
    const bool is_only_one = shape[axis] == fixed(1) && literal_value(leaf.arguments[axis]) == 0.0;
    if (!is_axis_index(leaf.arguments[axis], axis) && !is_only_one) return false;
  }
  return true;
}

ExpressionPointer squared(const Expression& expression) {
  if (expression.is(Operation::power) && literal_value(expression.arguments[1]) == 2.0) return expression.arguments[0];
  const bool is_product =
      expression.is(Operation::multiply) && same(*expression.arguments[0], *expression.arguments[1]);
  return is_product ? expression.arguments[0] : nullptr;
}

std::optional<NormParts> parts_of(const Expression& expression, const KnownFacts& facts) {
  NormParts found;
  bool has_variance = false;
  (void)contains(expression, [&](const Expression& one) {
    if (!one.is(Operation::add) || !is_mean_of_row(*one.arguments[0], facts)) return false;
    const auto epsilon = literal_value(one.arguments[1]);
    const ExpressionPointer base = squared(*facts.as<Mean>(one.arguments[0]->computed)->of);
    if (!epsilon || base == nullptr) return false;
    found.variance = one.arguments[0]->computed;
    found.epsilon = *epsilon;
    found.x = base;
    has_variance = true;
    return true;
  });
  if (!has_variance || !(found.epsilon > 0)) return std::nullopt;
  if (found.x->is(Operation::subtract) && is_mean_of_row(*found.x->arguments[1], facts) &&
      same(*facts.as<Mean>(found.x->arguments[1]->computed)->of, *found.x->arguments[0])) {
    found.center = found.x->arguments[1]->computed;
    found.x = found.x->arguments[0];
  }
  return found;
}

// The expression at given values of x and the means; NaN if it depends on anything else.
double value_at(const Expression& expression, const NormParts& parts, double x, double center, double variance) {
  if (same(expression, *parts.x)) return x;
  if (expression.kind == Expression::Kind::literal) return expression.value;
  if (expression.kind == Expression::Kind::computed)
    return expression.computed == parts.variance ? variance
           : expression.computed == parts.center ? center
                                                 : std::nan("");
  if (expression.kind != Expression::Kind::apply || expression.arguments.size() > 2) return std::nan("");
  std::array<double, 2> arguments{};
  for (std::size_t i = 0; i < expression.arguments.size(); ++i) {
    arguments[i] = value_at(*expression.arguments[i], parts, x, center, variance);
    if (std::isnan(arguments[i])) return arguments[i];
  }
  return calculated(expression.operation, expression.element_type,
                    std::span(arguments).first(expression.arguments.size()));
}

bool is_norm(const Expression& expression, const NormParts& parts) {
  for (const double x : {-7.0, -0.5, 0.75, 3.0, 40.0}) {
    for (const double center : {-2.0, 0.0, 1.5}) {
      for (const double variance : {0.0, 0.01, 0.6, 9.0, 400.0}) {
        const double expected = (parts.center ? x - center : x) / std::sqrt(variance + parts.epsilon);
        const double value = value_at(expression, parts, x, center, variance);
        if (!(std::abs(value - expected) <= 1e-5 * std::max(1.0, std::abs(expected)))) return false;
      }
    }
  }
  return true;
}

// A norm as it is in the facts, changed, over the same tensor.
template <typename Change>
std::optional<SymbolicTensor> changed_norm(const SymbolicTensor& tensor, KnownFacts& facts, const Change& change) {
  const Expression& leaf = *tensor.expression;
  if (leaf.kind != Expression::Kind::computed) return std::nullopt;
  Computed with = facts.computed(leaf.computed);
  RecognizedNorm* norm = nullptr;
  if (auto* rows = std::get_if<NormalizedRows>(&with)) norm = &rows->norm;
  if (auto* heads = std::get_if<NormalizedHeads>(&with)) norm = &heads->norm;
  if (norm == nullptr || !is_axis_index(leaf.arguments.back(), tensor.shape.size() - 1) || !change(*norm))
    return std::nullopt;
  SymbolicTensor result = tensor;
  result.expression = computed_element(facts.add(std::move(with)), ElementType::float32, leaf.arguments);
  return result;
}

std::optional<SymbolicTensor> norm_in_order(const SymbolicTensor& tensor, KnownFacts& facts) {
  const auto parts = parts_of(*tensor.expression, facts);
  if (!parts || !is_normalisable(tensor) || !is_norm(*tensor.expression, *parts)) return std::nullopt;
  std::string why;
  return normalized(SymbolicTensor{tensor.shape, ElementType::float32, parts->x},
                    {parts->center ? NormKind::layer_norm : NormKind::rms_norm, nullptr, nullptr,
                     static_cast<float>(parts->epsilon), 0},
                    facts, why);
}

// For each axis of a mean but the last, the axis of the tensor: exporters and optimizers transpose between a mean and
// what it is of.
std::optional<std::vector<std::size_t>> axes_of_mean(const SymbolicTensor& tensor, const KnownFacts& facts) {
  const Expression* leaf = nullptr;
  (void)contains(*tensor.expression, [&](const Expression& one) {
    if (one.kind == Expression::Kind::computed && facts.as<Mean>(one.computed) != nullptr) leaf = &one;
    return leaf != nullptr;
  });
  if (leaf == nullptr || leaf->arguments.size() + 1 != tensor.shape.size()) return std::nullopt;
  const std::size_t count = leaf->arguments.size();
  std::vector<std::size_t> axes(count, count);
  std::vector<bool> is_used(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Expression& at = *leaf->arguments[i];
    if (at.kind != Expression::Kind::axis_index) continue;
    if (at.axis >= count || is_used[at.axis]) return std::nullopt;
    axes[i] = at.axis;
    is_used[at.axis] = true;
  }
  const Shape& shape = facts.as<Mean>(leaf->computed)->shape;
  for (std::size_t i = 0; i < count; ++i) {
    if (axes[i] != count) continue;
    if (shape[i] != fixed(1) || literal_value(leaf->arguments[i]) != 0.0) return std::nullopt;
    // The own axis where it is free: all of size 1 are alike.
    for (std::size_t axis = 0; axis < count && axes[i] == count; ++axis) {
      const std::size_t candidate = (i + axis) % count;
      if (is_used[candidate] || tensor.shape[candidate] != fixed(1)) continue;
      axes[i] = candidate;
      is_used[candidate] = true;
    }
    if (axes[i] == count) return std::nullopt;
  }
  return axes;
}

}  // namespace

std::optional<SymbolicTensor> norm_of(const SymbolicTensor& tensor, KnownFacts& facts) {
  const auto axes = axes_of_mean(tensor, facts);
  if (!axes) return std::nullopt;
  const std::size_t last = axes->size();
  SymbolicTensor ordered = tensor;
  std::vector<ExpressionPointer> to_ordered(last + 1, axis_index(last)), from_ordered(last + 1, axis_index(last));
  for (std::size_t i = 0; i < last; ++i) {
    ordered.shape[i] = tensor.shape[(*axes)[i]];
    to_ordered[(*axes)[i]] = axis_index(i);
    from_ordered[i] = axis_index((*axes)[i]);
  }
  ordered.expression = substitute(tensor.expression, to_ordered);
  const auto norm = norm_in_order(ordered, facts);
  if (!norm) return std::nullopt;
  return SymbolicTensor{tensor.shape, ElementType::float32, substitute(norm->expression, from_ordered)};
}

std::optional<SymbolicTensor> scaled_norm(const SymbolicTensor& tensor, const Constant& gamma, KnownFacts& facts) {
  return changed_norm(tensor, facts, [&gamma](RecognizedNorm& norm) {
    if (norm.gamma != nullptr || norm.beta != nullptr || norm.size != gamma.count()) return false;
    norm.gamma = &gamma;
    return true;
  });
}

std::optional<SymbolicTensor> shifted_norm(const SymbolicTensor& tensor, const Constant& beta, KnownFacts& facts) {
  return changed_norm(tensor, facts, [&beta](RecognizedNorm& norm) {
    if (norm.beta != nullptr || norm.size != beta.count()) return false;
    norm.beta = &beta;
    return true;
  });
}

Fact derive_norm(const Node& node, KnownFacts& facts) {
  if (node.inputs.empty()) return Unknown{};
  const std::string& type = node.type;
  if (node.domain == "com.microsoft") {
    if (type == "SkipLayerNormalization") return with_skip(node, NormKind::layer_norm, facts);
    if (type == "SkipSimplifiedLayerNormalization") return with_skip(node, NormKind::rms_norm, facts);
    if (type == "EmbedLayerNormalization") return with_embeddings(node, facts);
  }
  if (type == "LayerNormalization") return whole(node, NormKind::layer_norm, facts);
  if (type == "RMSNormalization" || type == "SimplifiedLayerNormalization")
    return whole(node, NormKind::rms_norm, facts);
  return type == "ReduceMean" ? mean(node, facts) : Fact(Unknown{});
}

}  // namespace gpux_cpu::encoder
