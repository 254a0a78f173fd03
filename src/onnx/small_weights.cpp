#include "onnx/small_weights.h"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "gpux/tensor.h"
#include "onnx/graph_text.h"
#include "onnx/graph_writer.h"
#include "onnx/model_functions.h"
#include "onnx/rewriting.h"
#include "onnx/schema.h"
#include "onnx/tensor_header.h"

namespace gpux::onnx {
namespace {

using Name = std::string_view;

constexpr std::size_t matrix_rank = 2;

/// Constant matrices of 16 bits by name. What is an input too can be given by callers.
std::unordered_set<Name> small_matrices(std::string_view graph) {
  std::unordered_set<Name> names;
  for (Message fields(graph); fields.next();) {
    if (fields.field() != schema::graph::initializer) continue;
    const TensorHeader header = read_tensor_header(fields.message());
    const bool is_small = header.type == ElementType::float16 || header.type == ElementType::bfloat16;
    if (is_small && header.shape.size() == matrix_rank) names.insert(header.name);
  }
  for (Message fields(graph); fields.next();) {
    if (fields.field() == schema::graph::input) names.erase(name_of_value(fields.message()));
  }
  return names;
}

/// Which input of the node is the weights of a product, or a table whose rows it gathers; none: it is another node.
std::optional<std::size_t> place_of_weights(const NodeText& node) {
  if (!is_standard(node)) return std::nullopt;
  if (node.type == "MatMul" || node.type == "Gemm") return 1;
  if (node.type == "Gather") return 0;
  return std::nullopt;
}

std::unordered_map<Name, std::size_t> uses_as_weights(const GraphText& graph) {
  std::unordered_map<Name, std::size_t> uses;
  for (const NodeText& node : graph.nodes()) {
    if (const auto place = place_of_weights(node)) ++uses[input_of(node, *place)];
  }
  return uses;
}

}  // namespace

std::optional<std::string> with_widening_functions(std::string_view content) {
  if (content.size() > max_rewritten_bytes) return std::nullopt;
  ModelParts parts = split_model(content);
  const std::optional<std::int64_t> opset = opset_for_functions(parts.head, small_weights_domain);
  const std::unordered_set<Name> matrices = small_matrices(parts.graph);
  if (!opset || matrices.empty()) return std::nullopt;
  const GraphText graph(parts.graph);
  const std::unordered_map<Name, std::size_t> uses = uses_as_weights(graph);
  const auto widens = [&](const NodeText& node) {
    if (!is_standard(node) || node.type != "Cast" || node.outputs.size() != 1) return false;
    if (integer_attribute(node, "to", 0) != static_cast<std::int64_t>(ElementType::float32)) return false;
    const auto use = uses.find(node.outputs.front());
    return matrices.contains(input_of(node, 0)) && use != uses.end() &&
           use->second == graph.uses_of(node.outputs.front());
  };
  GraphWriter writer({});
  std::string fields;
  fields.reserve(parts.graph.size());
  std::size_t node = 0;
  bool any = false;
  for (Message field(parts.graph); field.next();) {
    if (field.field() != schema::graph::node || !widens(graph.nodes()[node++])) {
      fields += field.raw();
      continue;
    }
    const NodeText& cast = graph.nodes()[node - 1];
    const std::size_t begin = writer.fields().size();
    writer.node_of(small_weights_domain, widen_function, {std::string(input_of(cast, 0))},
                   {std::string(cast.outputs.front())});
    fields += std::string_view(writer.fields()).substr(begin);
    any = true;
  }
  if (!any) return std::nullopt;
  GraphWriter body({});
  (void)body.node("Cast", {"small"}, {{"to", static_cast<std::int64_t>(ElementType::float32)}}, "wide");
  append_function(parts.head,
                  {.domain = small_weights_domain,
                   .name = widen_function,
                   .input = "small",
                   .output = "wide",
                   .nodes = body.fields()},
                  *opset);
  append_domain(parts.head, small_weights_domain);
  std::string changed = std::move(parts.head);
  append_graph_key(changed, fields);
  changed += fields;
  return changed;
}

}  // namespace gpux::onnx
