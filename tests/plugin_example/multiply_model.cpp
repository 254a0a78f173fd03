#include "multiply_model.h"

#include <protozero/pbf_writer.hpp>

namespace gpux::plugin_example {
namespace {

const Operand unknown_rank{{}, {}, false};

// The numbers are the field numbers of onnx.proto.
std::string value_info(const std::string& name, const Operand& operand, int element_type) {
  std::string bytes;
  protozero::pbf_writer value(bytes);
  value.add_string(1, name);
  protozero::pbf_writer type(value, 2);
  protozero::pbf_writer tensor(type, 1);
  tensor.add_int32(1, element_type);
  if (operand.rank_known) {
    protozero::pbf_writer dimensions(tensor, 2);
    for (const Dimension& dimension : operand.shape) {
      protozero::pbf_writer entry(dimensions, 1);
      if (std::holds_alternative<std::string>(dimension)) {
        entry.add_string(2, std::get<std::string>(dimension));
      } else {
        entry.add_int64(1, std::get<std::int64_t>(dimension));
      }
    }
  }
  return bytes;
}

std::string node(const std::string& type, const std::string& name, const std::vector<std::string>& inputs,
                 const std::string& output) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  for (const std::string& input : inputs) writer.add_string(1, input);
  writer.add_string(2, output);
  writer.add_string(3, name);
  writer.add_string(4, type);
  return bytes;
}

std::string constant(const std::string& name, const Operand& operand, int element_type) {
  std::string bytes;
  protozero::pbf_writer tensor(bytes);
  for (const Dimension& dimension : operand.shape) tensor.add_int64(1, std::get<std::int64_t>(dimension));
  tensor.add_int32(2, element_type);
  if (element_type == 1) {
    tensor.add_packed_float(4, operand.constant.begin(), operand.constant.end());
  } else {
    tensor.add_packed_double(10, operand.constant.begin(), operand.constant.end());
  }
  tensor.add_string(8, name);
  return bytes;
}

void add_operand(protozero::pbf_writer& graph, const std::string& name, const Operand& operand, int element_type) {
  if (operand.constant.empty()) {
    graph.add_message(11, value_info(name, operand, element_type));
  } else {
    graph.add_message(5, constant(name, operand, element_type));
  }
}

}  // namespace

std::string serialize(const MultiplyModel& model) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  writer.add_int64(1, 9);
  {
    protozero::pbf_writer graph(writer, 7);
    const std::string left = model.negated ? "negated" : "left";
    if (model.negated) graph.add_message(1, node("Neg", "minus", {"left"}, left));
    graph.add_message(1, node("Mul", "times", {left, model.same_operand ? left : "right"}, "product"));
    graph.add_message(1, node("Add", "plus", {"product", "one"}, "sum"));
    graph.add_string(2, "multiply");
    add_operand(graph, "left", model.left, model.element_type);
    if (!model.same_operand) add_operand(graph, "right", model.right, model.element_type);
    add_operand(graph, "one", {{}, {1.0F}}, model.element_type);
    graph.add_message(12, value_info("sum", unknown_rank, model.element_type));
  }
  protozero::pbf_writer opset(writer, 8);
  opset.add_string(1, "");
  opset.add_int64(2, 17);
  return bytes;
}

}  // namespace gpux::plugin_example
