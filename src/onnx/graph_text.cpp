#include "onnx/graph_text.h"

#include <algorithm>
#include <utility>

#include "onnx/limits.h"
#include "onnx/schema.h"

namespace gpux::onnx {
namespace {

template <typename Found>
const Found* find(const std::unordered_map<std::string_view, Found>& known, std::string_view value) {
  const auto found = known.find(value);
  return found == known.end() ? nullptr : &found->second;
}

}  // namespace

GraphText::GraphText(std::string_view text) {
  for_each_node(Message(text), [&](NodeText node) { nodes_.push_back(std::move(node)); });
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::string_view output : nodes_[i].outputs) makers_.insert_or_assign(output, i);
    for (const std::string_view input : nodes_[i].inputs) ++uses_[input];
    for_each_subgraph(nodes_[i], [&](const Message& graph) { count_uses(graph, 0); });
  }
  for (Message graph(text); graph.next();) {
    if (graph.field() == schema::graph::output) ++uses_[name_of_value(graph.message())];
  }
  known_ = known_values(Message(text), nodes_);
}

// What nodes of a subgraph read may be a value of this graph.
void GraphText::count_uses(Message graph, unsigned depth) {
  if (depth > deepest_nesting) graph.malformed("graphs are nested too deeply");
  while (graph.next()) {
    if (graph.field() == schema::graph::output) ++uses_[name_of_value(graph.message())];
    if (graph.field() != schema::graph::node) continue;
    const NodeText node = read_node(graph.raw(), graph.message());
    for (const std::string_view input : node.inputs) ++uses_[input];
    for_each_subgraph(node, [&](const Message& inner) { count_uses(inner, depth + 1); });
  }
}

std::optional<std::size_t> GraphText::maker_of(std::string_view value) const {
  const std::size_t* found = find(makers_, value);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

const NodeText* GraphText::node_of(std::string_view value) const {
  const auto maker = maker_of(value);
  return maker ? &nodes_[*maker] : nullptr;
}

std::size_t GraphText::uses_of(std::string_view value) const {
  const std::size_t* found = find(uses_, value);
  return found == nullptr ? 0 : *found;
}

const Sizes* GraphText::sizes_of(std::string_view value) const {
  return find(known_.sizes, value);
}

const Sizes* GraphText::integers_of(std::string_view value) const {
  return find(known_.integers, value);
}

const float* GraphText::scalar_of(std::string_view value) const {
  return find(known_.scalars, value);
}

bool GraphText::has_names_with(std::string_view prefix) const {
  return std::ranges::any_of(uses_, [&](const auto& use) { return use.first.starts_with(prefix); });
}

}  // namespace gpux::onnx
