#include "graph/graph_reader.h"

#include <cstdint>
#include <string>
#include <utility>

namespace gpux_cpu {
namespace {

ElementType element_type_of(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return ElementType::float32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return ElementType::int64;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return ElementType::int32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
      return ElementType::boolean;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
      return ElementType::uint8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return ElementType::float16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return ElementType::bfloat16;
    default:
      return ElementType::other;
  }
}

// A tensor of one element, such as ConstantOfShape's.
void read_single(const Ort::ConstOpAttr& given, Attribute& attribute) {
  attribute.element_type = ElementType::other;
  Ort::Value value;
  if (!given.GetTensorAttributeAsOrtValue(value).IsOK() || !value) return;
  const auto type = value.GetTensorTypeAndShapeInfo();
  if (type.GetElementCount() != 1) return;
  attribute.element_type = element_type_of(type.GetElementType());
  const void* const data = value.GetTensorRawData();
  switch (attribute.element_type) {
    case ElementType::float32:
      attribute.number = *static_cast<const float*>(data);
      break;
    case ElementType::int64:
      attribute.number = static_cast<float>(*static_cast<const std::int64_t*>(data));
      break;
    case ElementType::int32:
      attribute.number = static_cast<float>(*static_cast<const std::int32_t*>(data));
      break;
    case ElementType::boolean:
      attribute.number = *static_cast<const bool*>(data) ? 1 : 0;
      break;
    case ElementType::uint8:
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::int8:
    case ElementType::other:
      break;
  }
}

Attribute attribute_of(const Ort::ConstOpAttr& given) {
  Attribute attribute;
  switch (given.GetType()) {
    case ORT_OP_ATTR_INT:
      Ort::ThrowOnError(given.GetValue(attribute.integers.emplace_back()));
      break;
    case ORT_OP_ATTR_INTS:
      Ort::ThrowOnError(given.GetValueArray(attribute.integers));
      break;
    case ORT_OP_ATTR_FLOAT:
      Ort::ThrowOnError(given.GetValue(attribute.number));
      break;
    case ORT_OP_ATTR_STRING:
      Ort::ThrowOnError(given.GetValue(attribute.text));
      break;
    case ORT_OP_ATTR_TENSOR:
      read_single(given, attribute);
      break;
    default:
      break;
  }
  return attribute;
}

// ONNX Runtime gives none of a node's attributes if it has no type for one of them (a type, a sparse tensor). Without
// its attributes a node must not be taken for one of the kind that it is.
void read_attributes(const Ort::ConstNode& from, Node& node) {
  try {
    for (const Ort::ConstOpAttr& attribute : from.GetAttributes()) {
      node.attributes.emplace(attribute.GetName(), attribute_of(attribute));
    }
  } catch (const Ort::Exception&) {
    node.type += " with an attribute that cannot be read";
  }
}

std::optional<Constant> constant_of(const Ort::ConstValueInfo& info) {
  Ort::ConstValue value;
  if (!info.GetInitializer(value).IsOK() || !value || !value.IsTensor()) return std::nullopt;
  const auto type = value.GetTensorTypeAndShapeInfo();
  Constant constant;
  constant.element_type = element_type_of(type.GetElementType());
  constant.shape = type.GetShape();
  constant.data = value.GetTensorRawData();
  return constant;
}

}  // namespace

std::optional<Input> token_input(const Ort::ConstValueInfo& info) {
  const Ort::ConstTypeInfo type = info.TypeInfo();
  if (type.GetONNXType() != ONNX_TYPE_TENSOR) return std::nullopt;
  const auto tensor = type.GetTensorTypeAndShapeInfo();
  const ElementType element_type = element_type_of(tensor.GetElementType());
  const bool is_whole = element_type == ElementType::int64 || element_type == ElementType::int32;
  if (!is_whole || tensor.GetShape().size() != 2) return std::nullopt;
  return Input{info.GetName(), tensor.GetShape()};
}

Graph read_graph(const OrtGraph* given, bool all_constant) {
  const Ort::ConstGraph source(given);
  Graph graph;
  for (const Ort::ConstValueInfo& info : source.GetInitializers()) {
    if (!all_constant && !info.IsConstantInitializer()) continue;
    if (auto constant = constant_of(info)) graph.constants.emplace(info.GetName(), *std::move(constant));
  }
  for (const Ort::ConstValueInfo& info : source.GetInputs()) {
    if (auto input = token_input(info)) graph.inputs.push_back(*std::move(input));
  }
  for (const Ort::ConstValueInfo& info : source.GetOutputs()) graph.outputs.push_back(info.GetName());
  for (const Ort::ConstNode& from : source.GetNodes()) {
    Node node{.name = from.GetName(),
              .type = from.GetOperatorType(),
              .domain = from.GetDomain(),
              .version = from.GetSinceVersion(),
              .inputs = {},
              .outputs = {},
              .attributes = {}};
    for (const Ort::ConstValueInfo& input : from.GetInputs()) node.inputs.push_back(input ? input.GetName() : "");
    for (const Ort::ConstValueInfo& output : from.GetOutputs()) node.outputs.push_back(output ? output.GetName() : "");
    read_attributes(from, node);
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

}  // namespace gpux_cpu
