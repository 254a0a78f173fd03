#include "onnx/graph_writer.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>

#include "base/files.h"
#include "gpux/error.h"
#include "onnx/schema.h"

namespace gpux::onnx {
namespace {

constexpr std::string_view contributed_domain = "com.microsoft";

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

void write_names(protozero::pbf_writer& node, std::string_view type, std::string_view domain,
                 const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  for (const std::string& input : inputs) node.add_string(schema::node::input, input);
  for (const std::string& output : outputs) node.add_string(schema::node::output, output);
  node.add_string(schema::node::name, outputs.front());
  node.add_string(schema::node::op_type, std::string(type));
  if (!domain.empty()) node.add_string(schema::node::domain, std::string(domain));
}

}  // namespace

GraphWriter::GraphWriter(std::string_view name, std::string_view prefix) : prefix_(prefix) {
  protozero::pbf_writer(graph_).add_string(schema::graph::name, std::string(name));
}

std::string GraphWriter::made_up(std::string_view stem) {
  return fmt::format("{}{}_{}", prefix_, stem, ++count_);
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

std::string GraphWriter::floats(std::string_view name, const Shape& shape, FloatSource source) {
  return constant(name, ElementType::float32, shape,
                  [source = std::move(source)] { return ConstantElements(source()); });
}

std::string GraphWriter::constant(std::string_view name, ElementType type, const Shape& shape, ConstantSource source) {
  std::string header;
  protozero::pbf_writer tensor(header);
  for (const std::int64_t size : shape) tensor.add_int64(schema::tensor::dims, size);
  tensor.add_int32(schema::tensor::data_type, static_cast<std::int32_t>(type));
  tensor.add_string(schema::tensor::name, std::string(name));
  const auto byte_size = static_cast<std::uint64_t>(element_count(shape)) * bits_of(type) / 8;
  sourced_.push_back({graph_.size(), std::move(header), byte_size, std::move(source)});
  return std::string(name);
}

std::string GraphWriter::integer(std::int64_t value) {
  std::string name = made_up("scalar");
  tensor(name, ElementType::int64, std::as_bytes(std::span(&value, 1)), {});
  return name;
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
  write_node(type, "", inputs, attributes, {result});
  return result;
}

void GraphWriter::contributed_node(std::string_view type, const std::vector<std::string>& inputs,
                                   const Attributes& attributes, const std::vector<std::string>& outputs) {
  has_contributed_nodes_ = true;
  write_node(type, contributed_domain, inputs, attributes, outputs);
}

void GraphWriter::contributed_node(std::string_view type, const std::vector<std::string>& inputs,
                                   std::span<const std::string_view> attributes,
                                   const std::vector<std::string>& outputs) {
  has_contributed_nodes_ = true;
  protozero::pbf_writer graph(graph_);
  protozero::pbf_writer node(graph, schema::graph::node);
  write_names(node, type, contributed_domain, inputs, outputs);
  for (const std::string_view attribute : attributes) {
    node.add_message(schema::node::attribute, attribute.data(), attribute.size());
  }
}

std::string GraphWriter::contributed_value(std::string_view type, const std::vector<std::string>& inputs,
                                           const Attributes& attributes, std::string_view output) {
  std::string result = output.empty() ? made_up(type) : std::string(output);
  contributed_node(type, inputs, attributes, {result});
  return result;
}

void GraphWriter::node_of(std::string_view domain, std::string_view type, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs) {
  write_node(type, domain, inputs, {}, outputs);
}

void GraphWriter::write_node(std::string_view type, std::string_view domain, const std::vector<std::string>& inputs,
                             const Attributes& attributes, const std::vector<std::string>& outputs) {
  protozero::pbf_writer graph(graph_);
  protozero::pbf_writer node(graph, schema::graph::node);
  write_names(node, type, domain, inputs, outputs);
  for (const auto& [name, value] : attributes) write_attribute(node, name, value);
}

namespace {

constexpr std::uint64_t alignment = 4096;  // of external data, so that it can be mapped

void append_varint(std::string& bytes, std::uint64_t value) {
  constexpr std::uint64_t low_bits = 0x7f, more = 0x80;
  for (; value >= more; value >>= 7U) bytes.push_back(static_cast<char>((value & low_bits) | more));
  bytes.push_back(static_cast<char>(value));
}

// Of a field with a length, which follows.
void append_length(std::string& bytes, std::uint32_t field, std::uint64_t length) {
  constexpr std::uint32_t length_delimited = 2;
  append_varint(bytes, (field << 3U) | length_delimited);
  append_varint(bytes, length);
}

std::string external_reference(const std::string& location, std::uint64_t offset, std::uint64_t length) {
  std::string reference;
  protozero::pbf_writer tensor(reference);
  const std::array<std::pair<std::string, std::string>, 3> entries{
      {{"location", location}, {"offset", std::to_string(offset)}, {"length", std::to_string(length)}}};
  for (const auto& [key, value] : entries) {
    protozero::pbf_writer entry(tensor, schema::tensor::external_data);
    entry.add_string(1, key);  // StringStringEntryProto
    entry.add_string(2, value);
  }
  tensor.add_int32(schema::tensor::data_location, 1);  // EXTERNAL
  return reference;
}

void append_elements(FileReplacement& file, const ConstantSource& source, std::uint64_t byte_size) {
  const ConstantElements elements = source();
  const auto bytes = std::visit([](const auto& list) { return std::as_bytes(std::span(list)); }, elements);
  if (bytes.size() != byte_size) {
    throw Error(ErrorCode::internal,
                fmt::format("a constant of {} bytes was made with {} bytes", byte_size, bytes.size()));
  }
  file.append(bytes);
}

}  // namespace

// The model but for its graph.
std::string GraphWriter::head(std::int64_t opset, std::int64_t ir_version) const {
  std::string head;
  protozero::pbf_writer model(head);
  model.add_int64(schema::model::ir_version, ir_version);
  model.add_string(schema::model::producer_name, "gpux");
  protozero::pbf_writer(model, schema::model::opset_import).add_int64(schema::opset::version, opset);
  if (has_contributed_nodes_) {
    protozero::pbf_writer contributed(model, schema::model::opset_import);
    contributed.add_string(schema::opset::domain, std::string(contributed_domain));
    contributed.add_int64(schema::opset::version, 1);
  }
  return head;
}

std::string GraphWriter::model(std::int64_t opset, std::int64_t ir_version) const {
  std::string model = head(opset, ir_version);
  append_length(model, schema::model::graph, graph_.size());
  return model + graph_;
}

void GraphWriter::write(const std::filesystem::path& file, std::int64_t opset, std::int64_t ir_version,
                        std::uint64_t max_file_bytes) const {
  // What goes before the data of each sourced constant: its field in the graph, its header, and the data's own field.
  const auto embedded = [](const SourcedTensor& tensor) {
    std::string data_field;
    append_length(data_field, schema::tensor::raw_data, tensor.byte_size);
    std::string bytes;
    append_length(bytes, schema::graph::initializer, tensor.header.size() + data_field.size() + tensor.byte_size);
    return bytes + tensor.header + data_field;
  };
  std::uint64_t graph_bytes = graph_.size();
  for (const SourcedTensor& tensor : sourced_) graph_bytes += embedded(tensor).size() + tensor.byte_size;
  std::string head = this->head(opset, ir_version);
  constexpr std::uint64_t longest_field = 16;  // of the graph's length
  const bool is_external = head.size() + longest_field + graph_bytes > std::min(max_file_bytes, max_model_bytes);

  std::vector<std::string> fields;
  if (is_external) {
    const std::filesystem::path data_file = file.string() + "_data";
    FileReplacement data(data_file);
    graph_bytes = graph_.size();
    for (const SourcedTensor& tensor : sourced_) {
      const std::string padding((alignment - data.size() % alignment) % alignment, '\0');
      data.append(std::as_bytes(std::span(padding)));
      const std::string reference = external_reference(data_file.filename().string(), data.size(), tensor.byte_size);
      std::string& field = fields.emplace_back();
      append_length(field, schema::graph::initializer, tensor.header.size() + reference.size());
      field += tensor.header + reference;
      graph_bytes += field.size();
      append_elements(data, tensor.source, tensor.byte_size);
    }
    data.commit();
  }
  append_length(head, schema::model::graph, graph_bytes);
  FileReplacement written(file);
  const auto append = [&](std::string_view bytes) { written.append(std::as_bytes(std::span(bytes))); };
  append(head);
  std::size_t position = 0;
  for (std::size_t i = 0; i < sourced_.size(); ++i) {
    const SourcedTensor& tensor = sourced_[i];
    append(std::string_view(graph_).substr(position, tensor.position - position));
    position = tensor.position;
    append(is_external ? fields[i] : embedded(tensor));
    if (is_external) continue;
    append_elements(written, tensor.source, tensor.byte_size);
  }
  append(std::string_view(graph_).substr(position));
  written.commit();
}

}  // namespace gpux::onnx
