#include "onnx/float32_nodes.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gpux::onnx {
namespace {

class Search {
 public:
  explicit Search(std::span<const NodeText> nodes) : nodes_(nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const std::string_view output : nodes[i].outputs) producers_.emplace(output, i);
      for (const std::string_view input : nodes[i].inputs) consumers_[input].push_back(i);
    }
  }

  std::unordered_set<std::size_t> run() {
    // Consumers come after what they use.
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      const NodeText& node = nodes_[i];
      if (!is_standard(node)) continue;
      if (node.type == "Cos" || node.type == "Sin" || serves_found_alone(node)) angles_.insert(i);
      if (node.type == "Sqrt") add_norm(i);
    }
    found_.insert(angles_.begin(), angles_.end());
    return std::move(found_);
  }

 private:
  // All that use its output are angles.
  [[nodiscard]] bool serves_found_alone(const NodeText& node) const {
    if (node.outputs.size() != 1) return false;
    const auto uses = consumers_.find(node.outputs.front());
    if (uses == consumers_.end()) return false;
    return std::ranges::all_of(uses->second, [&](std::size_t use) { return angles_.contains(use); });
  }

  // The node of that type that makes one of the inputs.
  [[nodiscard]] const NodeText* maker(const NodeText& node, std::string_view type, std::size_t& index) const {
    for (const std::string_view input : node.inputs) {
      const auto found = producers_.find(input);
      if (found == producers_.end() || nodes_[found->second].type != type) continue;
      index = found->second;
      return &nodes_[found->second];
    }
    return nullptr;
  }

  void add_norm(std::size_t root) {
    std::size_t add = 0, mean = 0, square = 0;
    const NodeText* sum = maker(nodes_[root], "Add", add);
    const NodeText* average = sum == nullptr ? nullptr : maker(*sum, "ReduceMean", mean);
    if (average == nullptr) return;
    const NodeText* product = maker(*average, "Mul", square);
    if (product != nullptr && input_of(*product, 0) != input_of(*product, 1)) return;
    if (product == nullptr) product = maker(*average, "Pow", square);
    if (product == nullptr || product->inputs.empty()) return;
    found_.insert({root, add, mean, square});
    const auto uses = consumers_.find(nodes_[root].outputs.front());
    if (uses == consumers_.end()) return;
    for (const std::size_t use : uses->second) {
      const std::string_view type = nodes_[use].type;
      if (type == "Div" || type == "Reciprocal") found_.insert(use);
    }
  }

  std::span<const NodeText> nodes_;
  std::unordered_map<std::string_view, std::size_t> producers_;
  std::unordered_map<std::string_view, std::vector<std::size_t>> consumers_;
  std::unordered_set<std::size_t> found_, angles_;
};

}  // namespace

std::unordered_set<std::size_t> float32_nodes(std::span<const NodeText> nodes) {
  return Search(nodes).run();
}

std::unordered_set<std::size_t> constant_nodes(std::span<const NodeText> nodes,
                                               std::unordered_set<std::string_view> constants) {
  std::unordered_set<std::size_t> found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeText& node = nodes[i];
    if (!is_standard(node) || node.inputs.empty()) continue;
    const bool is_constant = std::ranges::all_of(
        node.inputs, [&](std::string_view input) { return input.empty() || constants.contains(input); });
    bool has_subgraphs = false;
    for_each_subgraph(node, [&](const Message& /*graph*/) { has_subgraphs = true; });
    if (!is_constant || has_subgraphs) continue;
    found.insert(i);
    constants.insert(node.outputs.begin(), node.outputs.end());
  }
  return found;
}

}  // namespace gpux::onnx
