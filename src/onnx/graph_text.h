#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "onnx/message.h"
#include "onnx/node_text.h"
#include "onnx/value_sizes.h"

namespace gpux::onnx {

/// The nodes of a graph in the memory of its file, who uses what, and what is known of the values.
class GraphText {
 public:
  /// A GraphProto, which outlives it. Error MalformedMessage.
  explicit GraphText(std::string_view text);

  [[nodiscard]] const std::vector<NodeText>& nodes() const noexcept { return nodes_; }

  /// The node that makes the value; null: none does.
  [[nodiscard]] const NodeText* node_of(std::string_view value) const;
  [[nodiscard]] std::optional<std::size_t> maker_of(std::string_view value) const;

  /// How often nodes, of subgraphs too, read the value, and 1 where it is an output of the graph.
  [[nodiscard]] std::size_t uses_of(std::string_view value) const;

  /// Known sizes, integers or scalar of a value; null: not known.
  [[nodiscard]] const Sizes* sizes_of(std::string_view value) const;
  [[nodiscard]] const Sizes* integers_of(std::string_view value) const;
  [[nodiscard]] const float* scalar_of(std::string_view value) const;

  void add_use(std::string_view value) { ++uses_[value]; }

  /// Removes one use of the value; true: none is left.
  bool drop_use(std::string_view value) { return --uses_[value] == 0; }

  [[nodiscard]] bool has_names_with(std::string_view prefix) const;

 private:
  void count_uses(Message graph, unsigned depth);

  std::vector<NodeText> nodes_;
  std::unordered_map<std::string_view, std::size_t> makers_, uses_;
  KnownValues known_;
};

}  // namespace gpux::onnx
