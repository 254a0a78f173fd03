#include "onnx/node_text.h"

#include <cstring>

namespace gpux::onnx {

NodeText read_node(std::string_view raw, Message message) {
  NodeText node{.raw = raw};
  while (message.next()) {
    switch (message.field()) {
      case schema::node::input:
        node.inputs.push_back(message.bytes());
        break;
      case schema::node::output:
        node.outputs.push_back(message.bytes());
        break;
      case schema::node::name:
        node.name = message.bytes();
        break;
      case schema::node::op_type:
        node.type = message.bytes();
        break;
      case schema::node::domain:
        node.domain = message.bytes();
        break;
      case schema::node::attribute:
        node.attributes.push_back(message.bytes());
        break;
      default:
        break;
    }
  }
  return node;
}

std::string_view name_of_value(Message value_info) {
  while (value_info.next()) {
    if (value_info.field() == schema::value_info::name) return value_info.bytes();
  }
  return {};
}

bool is_standard(const NodeText& node) noexcept {
  return node.domain.empty() || node.domain == "ai.onnx";
}

std::string_view input_of(const NodeText& node, std::size_t place) noexcept {
  return place < node.inputs.size() ? node.inputs[place] : std::string_view();
}

// The attribute of that name, or an empty message.
Message attribute_of(const NodeText& node, std::string_view name) {
  for (const std::string_view attribute : node.attributes) {
    Message message(attribute);
    while (message.next()) {
      if (message.field() == schema::attribute::name && message.bytes() == name) return Message(attribute);
    }
  }
  return Message({});
}

std::int64_t integer_attribute(const NodeText& node, std::string_view name, std::int64_t otherwise) {
  Message attribute = attribute_of(node, name);
  while (attribute.next()) {
    if (attribute.field() == schema::attribute::i) return attribute.integer();
  }
  return otherwise;
}

float float_attribute(const NodeText& node, std::string_view name, float otherwise) {
  Message attribute = attribute_of(node, name);
  while (attribute.next()) {
    if (attribute.field() != schema::attribute::f) continue;
    const std::string_view bytes = attribute.fixed(sizeof otherwise);
    std::memcpy(&otherwise, bytes.data(), sizeof otherwise);
  }
  return otherwise;
}

}  // namespace gpux::onnx
