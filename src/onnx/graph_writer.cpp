#include "onnx/graph_writer.h"

#include <array>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>

#include "base/files.h"
#include "onnx/schema.h"

namespace gpux::onnx {
namespace {

void write_attribute(protozero::pbf_writer& node, const std::string& name, const AttributeValue& value) {
  // AttributeProto.AttributeType
  enum : std::int32_t { type_float = 1, type_int = 2, type_string = 3, type_ints = 7 };

  protozero::pbf_writer attribute(node, schema::node::attribute);
  attribute.add_string(schema::attribute::name, name);
  std::int32_t type = 0;
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    attribute.add_int64(schema::attribute::i, *number);
    type = type_int;
  } else if (const auto* real = std::get_if<float>(&value)) {
    attribute.add_float(schema::attribute::f, *real);
    type = type_float;
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    attribute.add_bytes(schema::attribute::s, *text);
    type = type_string;
  } else {
    for (const std::int64_t number : std::get<std::vector<std::int64_t>>(value)) {
      attribute.add_int64(schema::attribute::ints, number);
    }
    type = type_ints;
  }
  attribute.add_int32(schema::attribute::type, type);
}

}  // namespace

GraphWriter::GraphWriter(std::string_view name) {
  protozero::pbf_writer(graph_).add_string(schema::graph::name, std::string(name));
}

std::string GraphWriter::made_up(std::string_view stem) {
  return fmt::format("{}_{}", stem, ++count_);
}

void GraphWriter::value(std::uint32_t field, std::string_view name, ElementType type,
                        std::span<const WrittenSize> sizes) {
  protozero::pbf_writer graph(graph_);
  protozero::pbf_writer value(graph, field);
  value.add_string(schema::value_info::name, std::string(name));
  protozero::pbf_writer value_type(value, schema::value_info::type);
  protozero::pbf_writer tensor(value_type, schema::type::tensor);
  tensor.add_int32(schema::tensor_type::elem_type, static_cast<std::int32_t>(type));
  protozero::pbf_writer shape(tensor, schema::tensor_type::shape);
  for (const WrittenSize& size : sizes) {
    protozero::pbf_writer dimension(shape, schema::shape::dim);
    if (const auto* number = std::get_if<std::int64_t>(&size)) {
      dimension.add_int64(schema::dimension::value, *number);
    } else {
      dimension.add_string(schema::dimension::parameter, std::get<std::string>(size));
    }
  }
}

void GraphWriter::input(std::string_view name, ElementType type, std::span<const WrittenSize> sizes) {
  value(schema::graph::input, name, type, sizes);
}

void GraphWriter::output(std::string_view name, ElementType type, std::span<const WrittenSize> sizes) {
  value(schema::graph::output, name, type, sizes);
}

void GraphWriter::tensor(std::string_view name, ElementType type, std::span<const std::byte> bytes,
                         const Shape& shape) {
  protozero::pbf_writer graph(graph_);
  protozero::pbf_writer tensor(graph, schema::graph::initializer);
  for (const std::int64_t size : shape) tensor.add_int64(schema::tensor::dims, size);
  tensor.add_int32(schema::tensor::data_type, static_cast<std::int32_t>(type));
  tensor.add_string(schema::tensor::name, std::string(name));
  tensor.add_bytes(schema::tensor::raw_data, reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string GraphWriter::floats(std::string_view name, std::span<const float> elements, const Shape& shape) {
  tensor(name, ElementType::float32, std::as_bytes(elements), shape);
  return std::string(name);
}

std::string GraphWriter::integers(std::span<const std::int64_t> elements) {
  std::string name = made_up("sizes");
  tensor(name, ElementType::int64, std::as_bytes(elements), {static_cast<std::int64_t>(elements.size())});
  return name;
}

std::string GraphWriter::scalar(float value) {
  std::string name = made_up("scalar");
  tensor(name, ElementType::float32, std::as_bytes(std::span(&value, 1)), {});
  return name;
}

std::string GraphWriter::node(std::string_view type, const std::vector<std::string>& inputs,
                              const Attributes& attributes, std::string_view output) {
  std::string result = output.empty() ? made_up(type) : std::string(output);
  protozero::pbf_writer graph(graph_);
  protozero::pbf_writer node(graph, schema::graph::node);
  for (const std::string& input : inputs) node.add_string(schema::node::input, input);
  node.add_string(schema::node::output, result);
  node.add_string(schema::node::name, result);
  node.add_string(schema::node::op_type, std::string(type));
  for (const auto& [name, value] : attributes) write_attribute(node, name, value);
  return result;
}

void GraphWriter::write(const std::filesystem::path& file, std::int64_t opset, std::int64_t ir_version) const {
  std::string head;
  protozero::pbf_writer model(head);
  model.add_int64(schema::model::ir_version, ir_version);
  model.add_string(schema::model::producer_name, "gpux");
  protozero::pbf_writer(model, schema::model::opset_import).add_int64(schema::opset::version, opset);
  model.add_message(schema::model::graph, graph_);
  write_file_atomically(file, head);
}

}  // namespace gpux::onnx
