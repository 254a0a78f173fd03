#include "recognizer/known_facts.h"

#include <algorithm>
#include <utility>

namespace gpux_encoder {
namespace {

struct ShapeOf {
  const Reading& reading;

  [[nodiscard]] Size number(std::size_t number) const {
    return {Size::Kind::number, static_cast<std::int64_t>(number)};
  }

  [[nodiscard]] std::optional<Shape> of(const std::string& order, std::size_t width, std::size_t heads) const {
    Shape shape;
    for (const char axis : order) {
      switch (axis) {
        case 'b':
          shape.push_back(reading.texts);
          break;
        case 's':
        case 'k':
          shape.push_back(reading.tokens);
          break;
        case 'h':
          shape.push_back(number(heads));
          break;
        case 'd':
          shape.push_back(number(width / heads));
          break;
        case 'w':
          shape.push_back(number(width));
          break;
        case '1':
          shape.push_back(number(1));
          break;
        case 'r':
          if (reading.texts.kind == Size::Kind::number || reading.tokens.kind == Size::Kind::number)
            return std::nullopt;
          shape.push_back({Size::Kind::rows, 0});
          break;
        default:
          return std::nullopt;
      }
    }
    return shape;
  }

  std::optional<Shape> operator()(const Field& field) const { return field.shape; }

  std::optional<Shape> operator()(const Hidden& hidden) const { return of(hidden.order, reading.width, 1); }

  std::optional<Shape> operator()(const Product& product) const { return of(product.order, product.linear.columns, 1); }

  std::optional<Shape> operator()(const Elementwise& rows) const { return (*this)(rows.product); }

  std::optional<Shape> operator()(const Heads& heads) const {
    return of(heads.order, heads.product.linear.columns, heads.heads);
  }

  std::optional<Shape> operator()(const Scores& scores) const { return of(scores.order, 1, scores.heads); }

  std::optional<Shape> operator()(const Context& context) const {
    return of(context.order, context.value.linear.columns, context.scores.heads);
  }

  std::optional<Shape> operator()(const Sum& sum) const { return of(sum.order, reading.width, 1); }

  std::optional<Shape> operator()(const Masked& /*masked*/) const { return of("bsw", reading.width, 1); }

  std::optional<Shape> operator()(const Pooled& pooled) const { return of(pooled.order, reading.width, 1); }

  template <typename Other>
  std::optional<Shape> operator()(const Other& /*other*/) const {
    return std::nullopt;
  }
};

}  // namespace

Reading::Reading(const Graph& graph) : graph_(graph) {
  if (!graph.inputs.empty()) {
    const std::vector<std::int64_t>& first = graph.inputs.front().shape;
    if (first.size() == 2 && first[0] >= 0) texts = {Size::Kind::number, first[0]};
    if (first.size() == 2 && first[1] >= 0) tokens = {Size::Kind::number, first[1]};
  }
  for (const Input& input : graph.inputs) {
    Shape shape{texts, tokens};
    for (std::size_t axis = 0; axis < input.shape.size() && axis < 2; ++axis) {
      if (input.shape[axis] >= 0) shape[axis] = {Size::Kind::number, input.shape[axis]};
    }
    meanings_[input.name] = Field{shape, Element::int64, input_at(input.name, {place(0), place(1)})};
  }
  for (const auto& [name, constant] : graph.constants) {
    if (constant.element != Element::other) meanings_[name] = field_of(constant);
  }
}

const std::string& Reading::origin(const std::string& value) const {
  const auto found = origins_.find(value);
  return found == origins_.end() ? value : found->second;
}

const Meaning* Reading::find(const std::string& value) const {
  const auto found = meanings_.find(origin(value));
  return found == meanings_.end() ? nullptr : &found->second;
}

const Constant* Reading::constant(const std::string& value) const {
  const auto found = graph_.constants.find(origin(value));
  return found == graph_.constants.end() ? nullptr : &found->second;
}

const Constant* Reading::weights(const std::string& value, std::size_t rank) const {
  const Constant* found = constant(value);
  return found != nullptr && found->element == Element::float32 && found->shape.size() == rank ? found : nullptr;
}

std::optional<double> Reading::scalar(const std::string& value, std::size_t rank) const {
  const auto* field = as<Field>(value);
  return field == nullptr || field->shape.size() > rank ? std::nullopt : scalar_of(*field);
}

std::optional<Shape> Reading::sizes(const std::string& value) const {
  const auto* field = as<Field>(value);
  return field == nullptr ? std::nullopt : sizes_of(*field);
}

std::optional<std::vector<std::int64_t>> Reading::axes(const Node& node) const {
  if (node.inputs.size() > 1 && !node.inputs[1].empty()) {
    const auto* field = as<Field>(node.inputs[1]);
    return field == nullptr ? std::nullopt : numbers_of(*field);
  }
  const auto attribute = node.attributes.find("axes");
  if (attribute == node.attributes.end()) return std::nullopt;
  return attribute->second.integers;
}

std::optional<Shape> Reading::shape(const std::string& value) const {
  const Meaning* meaning = find(value);
  return meaning == nullptr ? std::nullopt : std::visit(ShapeOf{*this}, *meaning);
}

std::string named(const Node& node) {
  const std::string& name = !node.name.empty() ? node.name : node.outputs.empty() ? node.name : node.outputs.front();
  return node.type + " '" + name + "'";
}

}  // namespace gpux_encoder
