#include "recognizer/graph_index.h"

#include <algorithm>
#include <cstdint>

#include "block_kernels/half.h"

namespace gpux_cpu::decoder {
namespace {

// gpux writes it into a model: ONNX Runtime computes a Cast of constants before it is seen here.
constexpr const char* widen_function = "gpux.small_weights.Widen";

std::string full_type(const Node& node) {
  return node.domain.empty() || node.domain == "ai.onnx" ? node.type : node.domain + "." + node.type;
}

// As Reshape computes it; empty where it does not fit.
std::optional<std::vector<std::int64_t>> reshaped(const Constant& constant, std::vector<std::int64_t> shape) {
  std::int64_t count = 1;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && i < constant.shape.size()) shape[i] = constant.shape[i];
    if (shape[i] == -1 && !open) {
      open = i;
      continue;
    }
    if (shape[i] <= 0 || __builtin_mul_overflow(count, shape[i], &count)) return std::nullopt;
  }
  const auto all = static_cast<std::int64_t>(constant.count());
  if (open) {
    if (all % count != 0) return std::nullopt;
    shape[*open] = all / count;
    count = all;
  }
  return count == all ? std::optional(shape) : std::nullopt;
}

}  // namespace

std::vector<float> widened(const Constant& constant) {
  std::vector<float> floats(constant.count());
  const auto* const from = static_cast<const std::uint16_t*>(constant.data);
  const bool is_half = constant.element_type == ElementType::float16;
  std::transform(from, from + floats.size(), floats.begin(),
                 [is_half](std::uint16_t bits) { return is_half ? float_of_half(bits) : float_of_bfloat16(bits); });
  return floats;
}

GraphIndex::GraphIndex(const Graph& graph) : graph_(graph), owned_(std::make_shared<Owned>()) {
  for (const Node& node : graph.nodes) {
    for (const std::string& output : node.outputs) {
      if (!output.empty()) producers_.emplace(output, &node);
    }
  }
}

const Node* GraphIndex::producer(std::string_view value) const {
  const auto found = producers_.find(value);
  return found == producers_.end() ? nullptr : found->second;
}

const Node* GraphIndex::producer(std::string_view value, std::string_view type) const {
  const Node* const node = producer(value);
  return node != nullptr && full_type(*node) == type && node->outputs.front() == value ? node : nullptr;
}

const Constant* GraphIndex::constant(const std::string& value) {
  if (value.empty()) return nullptr;
  if (const auto found = graph_.constants.find(value); found != graph_.constants.end()) return &found->second;
  if (const auto found = derived_.find(value); found != derived_.end()) return found->second;
  const Constant* const made = derived_constant(value);
  derived_.emplace(value, made);
  return made;
}

const Constant* GraphIndex::derived_constant(const std::string& value) {
  const Node* node = nullptr;
  for (const std::string_view type : {"Identity", "Cast", "Reshape", widen_function}) {
    if (node == nullptr) node = producer(value, type);
  }
  if (node == nullptr) return nullptr;
  const auto from = graph_.constants.find(input_of(*node, 0));
  if (from == graph_.constants.end()) return nullptr;
  Constant made = from->second;
  std::vector<float> floats;
  if (node->type == "Cast" || full_type(*node) == widen_function) {
    if (widened_by(*node) == nullptr) return nullptr;
    floats = widened(made);
    made.element_type = ElementType::float32;
    made.data = floats.data();
  } else if (node->type == "Reshape") {
    const auto shape = integers(input_of(*node, 1));
    if (!shape || integer_of(*node, "allowzero", 0) != 0) return nullptr;
    const auto sizes = reshaped(made, *shape);
    if (!sizes) return nullptr;
    made.shape = *sizes;
  }
  understand(node);
  auto& kept = owned_->emplace_back(std::move(made), std::move(floats));
  return &kept.first;
}

const Constant* GraphIndex::widened_by(const Node& node) const {
  constexpr std::int64_t type_float = 1;
  const bool is_cast = full_type(node) == "Cast" && integer_of(node, "to", 0) == type_float;
  if (!is_cast && full_type(node) != widen_function) return nullptr;
  const auto from = graph_.constants.find(input_of(node, 0));
  return from != graph_.constants.end() && has_small_floats(from->second) ? &from->second : nullptr;
}

const Constant* GraphIndex::weights(const std::string& value) {
  const Node* const node = producer(value);
  if (const Constant* const small = node == nullptr ? nullptr : widened_by(*node)) {
    understand(node);
    return small;
  }
  const Constant* const found = constant(value);
  return found != nullptr && found->element_type == ElementType::float32 ? found : nullptr;
}

std::optional<float> GraphIndex::scalar(const std::string& value) {
  const Constant* const found = constant(value);
  if (found == nullptr || found->element_type != ElementType::float32 || found->count() != 1) return std::nullopt;
  return *static_cast<const float*>(found->data);
}

std::optional<std::vector<std::int64_t>> GraphIndex::integers(const std::string& value) {
  const auto found = graph_.constants.find(value);
  if (found == graph_.constants.end()) return std::nullopt;
  const Constant& constant = found->second;
  if (constant.element_type == ElementType::int64) {
    const auto* const data = static_cast<const std::int64_t*>(constant.data);
    return std::vector<std::int64_t>(data, data + constant.count());
  }
  if (constant.element_type == ElementType::int32) {
    const auto* const data = static_cast<const std::int32_t*>(constant.data);
    return std::vector<std::int64_t>(data, data + constant.count());
  }
  return std::nullopt;
}

std::vector<std::size_t> GraphIndex::understood() const {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (is_understood(graph_.nodes[i])) indices.push_back(i);
  }
  return indices;
}

NotRecognized GraphIndex::not_understood(const std::string& value) const {
  const Node* const node = producer(value);
  if (node == nullptr) return NotRecognized("'" + value + "' is not understood");
  return NotRecognized(node->type + " '" + (node->name.empty() ? value : node->name) + "' is not understood");
}

const std::string& input_of(const Node& node, std::size_t index) {
  static const std::string none;
  return index < node.inputs.size() ? node.inputs[index] : none;
}

std::int64_t integer_of(const Node& node, std::string_view attribute, std::int64_t otherwise) {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() || found->second.integers.empty() ? otherwise : found->second.integers.front();
}

float number_of(const Node& node, std::string_view attribute, float otherwise) {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? otherwise : found->second.number;
}

}  // namespace gpux_cpu::decoder
