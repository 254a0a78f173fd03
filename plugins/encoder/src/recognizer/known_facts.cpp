#include "recognizer/known_facts.h"

#include <algorithm>
#include <utility>

namespace gpux_encoder {
namespace {

struct ShapeOf {
  const KnownFacts& facts;

  [[nodiscard]] std::optional<Shape> of(const AxisOrder& order, std::size_t hidden_size, std::size_t num_heads) const {
    Shape shape;
    for (std::size_t i = 0; i < order.rank(); ++i) {
      switch (order[i]) {
        case Axis::batch:
          shape.push_back(facts.batch);
          break;
        case Axis::sequence:
        case Axis::key_sequence:
          shape.push_back(facts.sequence);
          break;
        case Axis::heads:
          shape.push_back(fixed(static_cast<std::int64_t>(num_heads)));
          break;
        case Axis::head_size:
          shape.push_back(fixed(static_cast<std::int64_t>(hidden_size / num_heads)));
          break;
        case Axis::hidden:
          shape.push_back(fixed(static_cast<std::int64_t>(hidden_size)));
          break;
        case Axis::one:
          shape.push_back(fixed(1));
          break;
        case Axis::tokens:
          if (facts.batch.kind == Dimension::Kind::fixed || facts.sequence.kind == Dimension::Kind::fixed)
            return std::nullopt;
          shape.push_back({Dimension::Kind::tokens, 0});
          break;
        case Axis::batch_heads:
        case Axis::qkv:
          return std::nullopt;
      }
    }
    return shape;
  }

  std::optional<Shape> operator()(const SymbolicTensor& tensor) const { return tensor.shape; }

  std::optional<Shape> operator()(const HiddenStates& hidden) const { return of(hidden.order, facts.hidden_size, 1); }

  std::optional<Shape> operator()(const Projection& projection) const {
    return of(projection.order, projection.linear.columns, 1);
  }

  std::optional<Shape> operator()(const Elementwise& rows) const { return (*this)(rows.projection); }

  std::optional<Shape> operator()(const Heads& heads) const {
    return of(heads.order, heads.projection.linear.columns, heads.num_heads);
  }

  std::optional<Shape> operator()(const AttentionScores& scores) const { return of(scores.order, 1, scores.num_heads); }

  std::optional<Shape> operator()(const Context& context) const {
    return of(context.order, context.value.linear.columns, context.scores.num_heads);
  }

  std::optional<Shape> operator()(const ResidualSum& sum) const { return of(sum.order, facts.hidden_size, 1); }

  std::optional<Shape> operator()(const MaskedHiddenStates& /*masked*/) const {
    return of(axis_order::batch_sequence_hidden, facts.hidden_size, 1);
  }

  std::optional<Shape> operator()(const Pooled& pooled) const { return of(pooled.order, facts.hidden_size, 1); }

  template <typename Other>
  std::optional<Shape> operator()(const Other& /*other*/) const {
    return std::nullopt;
  }
};

}  // namespace

KnownFacts::KnownFacts(const Graph& graph) : graph_(graph) {
  if (!graph.inputs.empty()) {
    const std::vector<std::int64_t>& first = graph.inputs.front().shape;
    if (first.size() == 2 && first[0] >= 0) batch = {Dimension::Kind::fixed, first[0]};
    if (first.size() == 2 && first[1] >= 0) sequence = {Dimension::Kind::fixed, first[1]};
  }
  for (const Input& input : graph.inputs) {
    Shape shape{batch, sequence};
    for (std::size_t axis = 0; axis < input.shape.size() && axis < 2; ++axis) {
      if (input.shape[axis] >= 0) shape[axis] = {Dimension::Kind::fixed, input.shape[axis]};
    }
    facts_[input.name] =
        SymbolicTensor{shape, ElementType::int64, input_element(input.name, {axis_index(0), axis_index(1)})};
  }
  for (const auto& [name, constant] : graph.constants) {
    if (constant.element_type != ElementType::other) facts_[name] = symbolic_tensor_of(constant);
  }
}

const std::string& KnownFacts::origin(const std::string& value) const {
  const auto found = origins_.find(value);
  return found == origins_.end() ? value : found->second;
}

const Fact* KnownFacts::find(const std::string& value) const {
  const auto found = facts_.find(origin(value));
  return found == facts_.end() ? nullptr : &found->second;
}

const Constant* KnownFacts::constant(const std::string& value) const {
  const auto found = graph_.constants.find(origin(value));
  return found == graph_.constants.end() ? nullptr : &found->second;
}

const Constant* KnownFacts::weights(const std::string& value, std::size_t rank) const {
  const Constant* found = constant(value);
  return found != nullptr && found->element_type == ElementType::float32 && found->shape.size() == rank ? found
                                                                                                        : nullptr;
}

std::optional<double> KnownFacts::scalar(const std::string& value, std::size_t rank) const {
  const auto* tensor = as<SymbolicTensor>(value);
  return tensor == nullptr || tensor->shape.size() > rank ? std::nullopt : scalar_of(*tensor);
}

std::optional<Shape> KnownFacts::dimensions(const std::string& value) const {
  const auto* tensor = as<SymbolicTensor>(value);
  return tensor == nullptr ? std::nullopt : dimensions_of(*tensor);
}

std::optional<std::vector<std::int64_t>> KnownFacts::axes(const Node& node) const {
  if (node.inputs.size() > 1 && !node.inputs[1].empty()) {
    const auto* tensor = as<SymbolicTensor>(node.inputs[1]);
    return tensor == nullptr ? std::nullopt : integers_of(*tensor);
  }
  const auto attribute = node.attributes.find("axes");
  if (attribute == node.attributes.end()) return std::nullopt;
  return attribute->second.integers;
}

std::optional<Shape> KnownFacts::shape(const std::string& value) const {
  const Fact* fact = find(value);
  return fact == nullptr ? std::nullopt : std::visit(ShapeOf{*this}, *fact);
}

std::string named(const Node& node) {
  const std::string& name = !node.name.empty() ? node.name : node.outputs.empty() ? node.name : node.outputs.front();
  return node.type + " '" + name + "'";
}

}  // namespace gpux_encoder
