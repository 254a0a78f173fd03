#pragma once

#include <gpux/tensor.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <protozero/pbf_writer.hpp>

#include "onnx/schema.h"

/// Builds ONNX messages in memory, well-formed or not, without a schema compiler. Tests that use it link `protozero`.
namespace gpux::onnx_test {

namespace schema = onnx::schema;

/// A serialized message made of fields in the order given.
class MessageWriter {
 public:
  MessageWriter& number(std::uint32_t field, std::int64_t value) {
    protozero::pbf_writer(bytes_).add_int64(field, value);
    return *this;
  }

  MessageWriter& bytes(std::uint32_t field, std::string_view value) {
    protozero::pbf_writer(bytes_).add_bytes(field, value.data(), value.size());
    return *this;
  }

  /// A length-delimited field that claims `length` bytes but has only those of `value`.
  MessageWriter& lying_bytes(std::uint32_t field, std::uint64_t length, std::string_view value = {}) {
    protozero::add_varint_to_buffer(&bytes_, (std::uint64_t{field} << 3) | 2);
    protozero::add_varint_to_buffer(&bytes_, length);
    bytes_ += value;
    return *this;
  }

  [[nodiscard]] const std::string& str() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Dimensions: a number, a name, or "" for one without a name.
struct DimensionText {
  DimensionText(std::int64_t value) : size(value), fixed(true) {}

  DimensionText(const char* text) : name(text) {}

  std::int64_t size = 0;
  bool fixed = false;
  std::string name;
};

using Dimensions = std::vector<DimensionText>;

inline std::string tensor_type(ElementType type, const Dimensions& dimensions) {
  MessageWriter shape;
  for (const DimensionText& dimension : dimensions) {
    MessageWriter entry;
    if (dimension.fixed) entry.number(schema::dimension::value, dimension.size);
    if (!dimension.name.empty()) entry.bytes(schema::dimension::parameter, dimension.name);
    shape.bytes(schema::shape::dim, entry.str());
  }
  MessageWriter tensor;
  tensor.number(schema::tensor_type::elem_type, static_cast<int>(type)).bytes(schema::tensor_type::shape, shape.str());
  return MessageWriter().bytes(schema::type::tensor, tensor.str()).str();
}

inline std::string value_info(std::string_view name, std::string_view type) {
  return MessageWriter().bytes(schema::value_info::name, name).bytes(schema::value_info::type, type).str();
}

inline std::string raw_tensor(std::string_view name, ElementType type, const Shape& shape, std::string_view raw) {
  MessageWriter tensor;
  for (const std::int64_t size : shape) tensor.number(schema::tensor::dims, size);
  return tensor.number(schema::tensor::data_type, static_cast<int>(type))
      .bytes(schema::tensor::name, name)
      .bytes(schema::tensor::raw_data, raw)
      .str();
}

inline std::string external_tensor(std::string_view name, ElementType type, const Shape& shape,
                                   const std::vector<std::pair<std::string, std::string>>& entries) {
  MessageWriter tensor;
  for (const std::int64_t size : shape) tensor.number(schema::tensor::dims, size);
  tensor.number(schema::tensor::data_type, static_cast<int>(type)).bytes(schema::tensor::name, name);
  for (const auto& [key, value] : entries) {
    tensor.bytes(schema::tensor::external_data,
                 MessageWriter().bytes(schema::entry::key, key).bytes(schema::entry::value, value).str());
  }
  return tensor.number(schema::tensor::data_location, 1).str();
}

using Names = std::initializer_list<std::string_view>;

/// A NodeProto; `attributes` are AttributeProtos.
inline std::string node(std::string_view operator_name, Names inputs, Names outputs,
                        const std::vector<std::string>& attributes = {}, std::string_view domain = {}) {
  MessageWriter message;
  for (const std::string_view input : inputs) message.bytes(schema::node::input, input);
  for (const std::string_view output : outputs) message.bytes(schema::node::output, output);
  message.bytes(schema::node::op_type, operator_name);
  if (!domain.empty()) message.bytes(schema::node::domain, domain);
  for (const std::string& attribute : attributes) message.bytes(schema::node::attribute, attribute);
  return message.str();
}

inline std::string graph_attribute(std::string_view name, std::string_view graph) {
  return MessageWriter()
      .bytes(schema::attribute::name, name)
      .bytes(schema::attribute::g, graph)
      .number(schema::attribute::type, 5)
      .str();
}

/// A model in the making; what it is given is kept in that order, and nothing is checked.
class ModelWriter {
 public:
  explicit ModelWriter(std::int64_t opset = 21, std::int64_t ir_version = 10) {
    model_.number(schema::model::ir_version, ir_version);
    add_opset("", opset);
    graph_.bytes(schema::graph::name, "graph");
  }

  ModelWriter& add_opset(std::string_view domain, std::int64_t version) {
    model_.bytes(schema::model::opset_import,
                 MessageWriter().bytes(schema::opset::domain, domain).number(schema::opset::version, version).str());
    return *this;
  }

  ModelWriter& add_input(std::string_view name, ElementType type, const Dimensions& dimensions) {
    return add_to_graph(schema::graph::input, value_info(name, tensor_type(type, dimensions)));
  }

  ModelWriter& add_output(std::string_view name, ElementType type, const Dimensions& dimensions) {
    return add_to_graph(schema::graph::output, value_info(name, tensor_type(type, dimensions)));
  }

  ModelWriter& add_node(std::string_view operator_name, Names inputs, Names outputs,
                        const std::vector<std::string>& attributes = {}) {
    return add_to_graph(schema::graph::node, node(operator_name, inputs, outputs, attributes));
  }

  /// `raw`: the elements as they lie in memory.
  ModelWriter& add_initializer(std::string_view name, ElementType type, const Shape& shape, std::string_view raw) {
    return add_to_graph(schema::graph::initializer, raw_tensor(name, type, shape, raw));
  }

  ModelWriter& add_initializer(std::string_view name, const Shape& shape, std::span<const float> values) {
    return add_initializer(name, ElementType::float32, shape,
                           {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }

  /// A field of the GraphProto or ModelProto, made by hand.
  ModelWriter& add_to_graph(std::uint32_t field, std::string_view message) {
    graph_.bytes(field, message);
    return *this;
  }

  ModelWriter& add_to_model(std::uint32_t field, std::string_view message) {
    model_.bytes(field, message);
    return *this;
  }

  /// The file's content.
  [[nodiscard]] std::string bytes() const {
    return model_.str() + MessageWriter().bytes(schema::model::graph, graph_.str()).str();
  }

 private:
  MessageWriter model_;
  MessageWriter graph_;
};

}  // namespace gpux::onnx_test
