#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "onnx/message.h"
#include "onnx/schema.h"

namespace gpux::onnx {

/// A NodeProto in the memory of its file.
struct NodeText {
  std::string_view raw;  ///< with its key
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes;  ///< AttributeProtos
  std::string_view name, type, domain;
};

/// `raw` is the node with its key. Error MalformedMessage.
NodeText read_node(std::string_view raw, Message message);

/// Whether it is one of ONNX's own operators.
bool is_standard(const NodeText& node) noexcept;

/// Name of the node's input at index `place`; empty if it has none.
std::string_view input_of(const NodeText& node, std::size_t place) noexcept;

/// The attribute of that name, or an empty message.
Message attribute_of(const NodeText& node, std::string_view name);
std::int64_t integer_attribute(const NodeText& node, std::string_view name, std::int64_t otherwise);
float float_attribute(const NodeText& node, std::string_view name, float otherwise);

/// The name of a ValueInfoProto, or of a TensorProto's like.
std::string_view name_of_value(Message value_info);

/// Calls `take(Message)` for each graph that the node holds: the branches of If, the body of Loop and Scan.
template <typename Take>
void for_each_subgraph(const NodeText& node, const Take& take) {
  for (const std::string_view text : node.attributes) {
    Message attribute(text);
    while (attribute.next()) {
      if (attribute.field() == schema::attribute::g || attribute.field() == schema::attribute::graphs) {
        take(attribute.message());
      }
    }
  }
}

/// Calls `take(NodeText)` for each node of the graph.
template <typename Take>
void for_each_node(Message graph, const Take& take) {
  while (graph.next()) {
    if (graph.field() == schema::graph::node) take(read_node(graph.raw(), graph.message()));
  }
}

}  // namespace gpux::onnx
