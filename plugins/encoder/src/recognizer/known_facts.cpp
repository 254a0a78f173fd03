#include "recognizer/known_facts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "recognizer/relative_positions.h"

namespace gpux_cpu::encoder {
namespace {

constexpr std::size_t max_vector_elements = std::size_t{1} << 16;

std::vector<ExpressionPointer> rows_indices() {
  return {axis_index(0), axis_index(1), axis_index(2)};
}

bool are_rows(const Computed& value) {
  return std::holds_alternative<EmbeddedRows>(value) || std::holds_alternative<NormalizedRows>(value) ||
         std::holds_alternative<Projection>(value) || std::holds_alternative<ActivatedRows>(value) ||
         std::holds_alternative<Sum>(value) || std::holds_alternative<MaskedRows>(value);
}

}  // namespace

KnownFacts::KnownFacts(const Graph& graph) : graph_(graph) {
  if (!graph.inputs.empty()) {
    const std::vector<std::int64_t>& first = graph.inputs.front().shape;
    if (first.size() == 2 && first[0] >= 0) batch = fixed(first[0]);
    if (first.size() == 2 && first[1] >= 0) sequence = fixed(first[1]);
  }
  for (const Input& input : graph.inputs) {
    Shape shape{batch, sequence};
    for (std::size_t axis = 0; axis < input.shape.size() && axis < 2; ++axis) {
      if (input.shape[axis] >= 0) shape[axis] = fixed(input.shape[axis]);
    }
    facts_[input.name] =
        SymbolicTensor{shape, ElementType::int64, input_element(input.name, {axis_index(0), axis_index(1)})};
  }
  for (const auto& [name, constant] : graph.constants) {
    if (is_computed(constant.element_type)) facts_[name] = symbolic_tensor_of(constant);
  }
}

const std::string& KnownFacts::origin(const std::string& value) const {
  const auto found = origins_.find(value);
  return found == origins_.end() ? value : found->second;
}

const SymbolicTensor* KnownFacts::tensor(const std::string& value) const {
  const auto found = facts_.find(origin(value));
  return found == facts_.end() ? nullptr : std::get_if<SymbolicTensor>(&found->second);
}

const SymbolicTensor* KnownFacts::input(const Node& node, std::size_t index) const {
  return index < node.inputs.size() && !node.inputs[index].empty() ? tensor(node.inputs[index]) : nullptr;
}

const Unknown* KnownFacts::unknown(const std::string& value) const {
  const auto found = facts_.find(origin(value));
  return found == facts_.end() ? nullptr : std::get_if<Unknown>(&found->second);
}

const Constant* KnownFacts::weights(const std::string& value, std::size_t rank) const {
  const auto found = graph_.constants.find(origin(value));
  const bool fits = found != graph_.constants.end() && found->second.element_type == ElementType::float32 &&
                    found->second.shape.size() == rank;
  return fits ? &found->second : nullptr;
}

const Constant* KnownFacts::vector(const SymbolicTensor& tensor, std::size_t count) {
  if (tensor.element_type != ElementType::float32 || tensor.shape.empty() || count == 0 || count > max_vector_elements)
    return nullptr;
  for (std::size_t axis = 0; axis + 1 < tensor.shape.size(); ++axis) {
    if (tensor.shape[axis] != fixed(1)) return nullptr;
  }
  if (tensor.shape.back() != fixed(static_cast<std::int64_t>(count))) return nullptr;
  const Expression& at = *tensor.expression;
  const std::size_t last = tensor.shape.size() - 1;
  const bool is_plain =
      at.kind == Expression::Kind::table && at.constant->count() == count && is_axis_index(at.arguments.back(), last);
  if (is_plain) return at.constant;
  std::vector<float> elements(count);
  std::vector<double> indices(tensor.shape.size(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    indices[last] = static_cast<double>(i);
    const auto element = known_value(at, indices);
    if (!element) return nullptr;
    elements[i] = static_cast<float>(*element);
  }
  // Equal vectors are one constant: layers that share a norm share it in the weights, too.
  for (std::size_t i = 0; i < owned_data->size(); ++i) {
    if ((*owned_data)[i] == elements) return &(*owned_constants)[i];
  }
  owned_data->push_back(std::move(elements));
  owned_constants->push_back({ElementType::float32, {static_cast<std::int64_t>(count)}, owned_data->back().data()});
  return &owned_constants->back();
}

std::optional<double> KnownFacts::scalar(const std::string& value, std::size_t rank) const {
  const SymbolicTensor* found = tensor(value);
  return found == nullptr || found->shape.size() > rank ? std::nullopt : scalar_of(*found);
}

std::optional<Shape> KnownFacts::dimensions(const std::string& value) const {
  const SymbolicTensor* found = tensor(value);
  return found == nullptr ? std::nullopt : dimensions_of(*found);
}

std::optional<std::vector<std::int64_t>> KnownFacts::axes(const Node& node) const {
  if (node.inputs.size() > 1 && !node.inputs[1].empty()) {
    const SymbolicTensor* found = tensor(node.inputs[1]);
    return found == nullptr ? std::nullopt : integers_of(*found);
  }
  const auto attribute = node.attributes.find("axes");
  if (attribute == node.attributes.end()) return std::nullopt;
  return attribute->second.integers;
}

std::size_t KnownFacts::add(Computed computed) {
  computed_.push_back(std::move(computed));
  return computed_.size() - 1;
}

bool KnownFacts::is_text(const ExpressionPointer& index, std::size_t axis) const {
  return is_axis_index(index, axis) || (batch == fixed(1) && literal_value(index) == 0.0);
}

bool KnownFacts::is_token(const ExpressionPointer& index, std::size_t axis) const {
  return is_axis_index(index, axis) || (sequence == fixed(1) && literal_value(index) == 0.0);
}

Shape KnownFacts::rows_shape(std::size_t columns) const {
  return {batch, sequence, fixed(static_cast<std::int64_t>(columns))};
}

std::size_t KnownFacts::columns_of(std::size_t rows) const {
  for (;;) {
    const Computed& value = computed_[rows];
    if (const auto* sum = std::get_if<Sum>(&value)) {
      rows = sum->right;
    } else if (const auto* masked = std::get_if<MaskedRows>(&value)) {
      rows = masked->of;
    } else {
      if (const auto* norm = std::get_if<NormalizedRows>(&value)) return norm->norm.size;
      if (const auto* projection = std::get_if<Projection>(&value)) return projection->linear.columns;
      if (const auto* activated = std::get_if<ActivatedRows>(&value)) return activated->input.columns;
      const auto* embedded = std::get_if<EmbeddedRows>(&value);
      return embedded == nullptr ? 0 : embedded->embeddings.word_embeddings.hidden_size();
    }
  }
}

SymbolicTensor KnownFacts::whole_rows(std::size_t rows) const {
  return {rows_shape(columns_of(rows)), ElementType::float32,
          computed_element(rows, ElementType::float32, rows_indices())};
}

std::optional<std::size_t> KnownFacts::rows_of(const SymbolicTensor& tensor, std::string& why) {
  const auto refuse = [&why](const char* reason) -> std::optional<std::size_t> {
    why = reason;
    return std::nullopt;
  };
  if (tensor.element_type != ElementType::float32 || tensor.shape.empty() ||
      tensor.shape.back().kind != Dimension::Kind::fixed || tensor.shape.back().value < 1) {
    return refuse("is not over tensors of [batch, sequence, hidden_size]");
  }
  const bool is_constant = !encoder::contains(*tensor.expression, [](const Expression& one) {
    return one.kind == Expression::Kind::computed || one.kind == Expression::Kind::input;
  });
  if (is_constant) return refuse("is over constants, which only ONNX Runtime's graph optimizations compute");
  const auto columns = static_cast<std::size_t>(tensor.shape.back().value);
  const auto rows = reshaped(tensor, rows_shape(columns));
  if (!rows) return refuse("is not over tensors of [batch, sequence, hidden_size]");
  const Expression& at = *rows->expression;
  const auto is_whole = [&](const Expression& leaf) {
    return leaf.kind == Expression::Kind::computed && are_rows(computed_[leaf.computed]) &&
           leaf.arguments.size() == 3 && is_text(leaf.arguments[0], 0) && is_token(leaf.arguments[1], 1) &&
           (is_axis_index(leaf.arguments[2], 2) || columns == 1) && columns_of(leaf.computed) == columns;
  };
  if (is_whole(at)) return at.computed;
  for (std::size_t i = 0; i < computed_.size(); ++i) {
    const auto* embedded = as<EmbeddedRows>(i);
    if (embedded != nullptr && same(*embedded->expression, at)) return i;
  }
  if (at.is(Operation::multiply)) {
    for (const bool is_first : {true, false}) {
      const Expression& leaf = *at.arguments[is_first ? 0 : 1];
      if (!is_whole(leaf)) continue;
      const SymbolicTensor factor{
          rows_shape(1), ElementType::float32,
          substitute(at.arguments[is_first ? 1 : 0], {nullptr, nullptr, literal(0, ElementType::int64)})};
      const auto mask = bits_of(factor, *this);
      if (!mask) return refuse("multiplies rows by something else than a mask");
      for (std::size_t i = 0; i < computed_.size(); ++i) {
        const auto* masked = as<MaskedRows>(i);
        if (masked != nullptr && masked->of == leaf.computed && masked->mask == *mask) return i;
      }
      return add(MaskedRows{leaf.computed, *mask});
    }
  }
  const bool is_computed =
      encoder::contains(at, [](const Expression& one) { return one.kind == Expression::Kind::computed; });
  if (is_computed) return refuse("is over something else than hidden states");
  auto embeddings = embeddings_of(*rows, *this, why);
  if (!embeddings) return std::nullopt;
  if (input_ids.empty()) {
    input_ids = embeddings->input_ids;
    vocabulary_size = embeddings->word_embeddings.rows->count() / embeddings->word_embeddings.hidden_size();
  }
  return add(EmbeddedRows{*std::move(embeddings), rows->expression});
}

const std::vector<double>& KnownFacts::values_by_difference(const ExpressionPointer& expression,
                                                            std::size_t max) const {
  for (const auto& [known, values] : values_by_difference_) {
    if (values.size() == 2 * max + 1 && (known == expression || same(*known, *expression))) return values;
  }
  std::vector<double> values;
  values.reserve(2 * max + 1);
  const auto last = static_cast<double>(max);
  for (double difference = -last; difference <= last; ++difference)
    values.push_back(value_at_difference(*expression, 0, difference).value_or(std::nan("")));
  return values_by_difference_.emplace_back(expression, std::move(values)).second;
}

const Expression* single_computed(const Expression& expression) {
  const Expression* found = nullptr;
  bool is_single = true;
  (void)contains(expression, [&](const Expression& one) {
    if (one.kind != Expression::Kind::computed) return false;
    is_single = is_single && (found == nullptr || found->computed == one.computed);
    found = &one;
    return false;
  });
  return is_single ? found : nullptr;
}

std::string named(const Node& node) {
  const std::string& name = !node.name.empty() ? node.name : node.outputs.empty() ? node.name : node.outputs.front();
  return node.type + " '" + name + "'";
}

float number(const Node& node, const char* name, float otherwise) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? otherwise : found->second.number;
}

}  // namespace gpux_cpu::encoder
