#include "encoder/exported_graph.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>

#include <protozero/pbf_writer.hpp>
#include <zlib.h>

#include "onnx/message.h"

namespace gpux::test {
namespace {

using onnx::Message;
using Tensor = ExportedGraph::Tensor;
using Attribute = ExportedGraph::Attribute;
using Node = ExportedGraph::Node;

constexpr std::int64_t float_type = 1, int64_type = 7;

std::string decompressed(const std::filesystem::path& file) {
  const gzFile opened = gzopen(file.c_str(), "rb");
  if (opened == nullptr) throw std::runtime_error("cannot open " + file.string());
  std::string text;
  std::vector<char> part(1 << 16);
  for (int count = 0; (count = gzread(opened, part.data(), static_cast<unsigned>(part.size()))) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  gzclose(opened);
  return text;
}

Tensor read_tensor(Message from) {
  Tensor tensor;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        from.each_integer([&](std::int64_t size) { tensor.dims.push_back(size); });
        break;
      case 2:
        tensor.type = from.integer();
        break;
      case 7:  // int64_data
        from.each_integer(
            [&](std::int64_t value) { tensor.raw.append(reinterpret_cast<const char*>(&value), sizeof value); });
        break;
      case 8:
        tensor.name = from.bytes();
        break;
      case 4:  // float_data
        tensor.raw.append(from.fixed(4));
        break;
      case 9:
        tensor.raw = from.bytes();
        break;
      default:
        tensor.others += from.raw();
    }
  }
  return tensor;
}

std::string written(const Tensor& tensor) {
  std::string out = tensor.others;
  protozero::pbf_writer to(out);
  to.add_packed_int64(1, tensor.dims.begin(), tensor.dims.end());
  to.add_int64(2, tensor.type);
  to.add_string(8, tensor.name);
  if (!tensor.raw.empty()) to.add_bytes(9, tensor.raw);
  return out;
}

Attribute read_attribute(Message from) {
  Attribute attribute;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        attribute.name = from.bytes();
        break;
      case 2: {
        float value = 0;
        std::memcpy(&value, from.raw().data() + 1, sizeof value);
        attribute.number = value;
        break;
      }
      case 3:
        attribute.integer = from.integer();
        break;
      case 5:
        attribute.tensor = read_tensor(from.message());
        break;
      case 8:
        from.each_integer([&](std::int64_t value) { attribute.integers.push_back(value); });
        break;
      default:
        attribute.others += from.raw();
    }
  }
  return attribute;
}

std::string written(const Attribute& attribute) {
  std::string out = attribute.others;
  protozero::pbf_writer to(out);
  to.add_string(1, attribute.name);
  if (attribute.number) to.add_float(2, *attribute.number);
  if (attribute.integer) to.add_int64(3, *attribute.integer);
  if (attribute.tensor) to.add_message(5, written(*attribute.tensor));
  for (const std::int64_t value : attribute.integers) to.add_int64(8, value);
  return out;
}

Node read_node(Message from) {
  Node node;
  while (from.next()) {
    switch (from.field()) {
      case 1:
        node.inputs.emplace_back(from.bytes());
        break;
      case 2:
        node.outputs.emplace_back(from.bytes());
        break;
      case 3:
        node.name = from.bytes();
        break;
      case 4:
        node.type = from.bytes();
        break;
      case 5:
        node.attributes.push_back(read_attribute(from.message()));
        break;
      default:
        node.others += from.raw();
    }
  }
  return node;
}

std::string written(const Node& node) {
  std::string out = node.others;
  protozero::pbf_writer to(out);
  for (const std::string& input : node.inputs) to.add_string(1, input);
  for (const std::string& output : node.outputs) to.add_string(2, output);
  to.add_string(3, node.name);
  to.add_string(4, node.type);
  for (const Attribute& attribute : node.attributes) to.add_message(5, written(attribute));
  return out;
}

std::string name_of_value(Message from) {
  while (from.next()) {
    if (from.field() == 1) return std::string(from.bytes());
  }
  return {};
}

template <typename List>
auto& any_of(List& list, std::mt19937_64& random) {
  return list[random() % list.size()];
}

// Constants of a few elements, of initializers and of nodes.
std::vector<Tensor*> small_tensors(ExportedGraph& graph, std::int64_t type) {
  std::vector<Tensor*> found;
  const auto look = [&](Tensor& tensor) {
    if (tensor.type == type && !tensor.raw.empty() && tensor.raw.size() <= 64) found.push_back(&tensor);
  };
  for (Tensor& tensor : graph.initializers) look(tensor);
  for (Node& node : graph.nodes) {
    for (Attribute& attribute : node.attributes) {
      if (attribute.tensor) look(*attribute.tensor);
    }
  }
  return found;
}

template <typename Element>
void change_element(Tensor& tensor, std::mt19937_64& random, const std::vector<Element>& changes) {
  const std::size_t at = random() % (tensor.raw.size() / sizeof(Element)) * sizeof(Element);
  Element value{};
  std::memcpy(&value, tensor.raw.data() + at, sizeof value);
  value = changes[random() % changes.size()];
  std::memcpy(tensor.raw.data() + at, &value, sizeof value);
}

std::string change_float(ExportedGraph& graph, std::mt19937_64& random) {
  const auto tensors = small_tensors(graph, float_type);
  if (tensors.empty()) return {};
  Tensor& tensor = *any_of(tensors, random);
  float value = 0;
  std::memcpy(&value, tensor.raw.data(), sizeof value);
  change_element<float>(tensor, random,
                        {value * 2, value * 0.5F, -value, value + 0.25F, 0.0F, 1.0F, -1e4F, -100.0F, value * 1.01F});
  return "number of " + tensor.name;
}

std::string change_integer(ExportedGraph& graph, std::mt19937_64& random) {
  const auto tensors = small_tensors(graph, int64_type);
  if (tensors.empty()) return {};
  Tensor& tensor = *any_of(tensors, random);
  std::int64_t value = 0;
  std::memcpy(&value, tensor.raw.data(), sizeof value);
  // Round the ends: some slices go on to the largest number there is.
  const auto moved = [](std::int64_t from, std::uint64_t by) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(from) + by);
  };
  const auto negative = static_cast<std::int64_t>(std::uint64_t{0} - static_cast<std::uint64_t>(value));
  change_element<std::int64_t>(tensor, random,
                               {moved(value, 1), moved(value, ~std::uint64_t{0}), negative, 0, 1, 2, -1});
  return "whole number of " + tensor.name;
}

std::string change_attribute(ExportedGraph& graph, std::mt19937_64& random) {
  std::vector<std::pair<Node*, Attribute*>> all;
  for (Node& node : graph.nodes) {
    for (Attribute& attribute : node.attributes) {
      if (attribute.number || attribute.integer || !attribute.integers.empty()) all.emplace_back(&node, &attribute);
    }
  }
  if (all.empty()) return {};
  const auto& [node, attribute] = any_of(all, random);
  if (attribute->number) {
    const float value = *attribute->number;
    attribute->number = std::vector<float>{value * 1e6F, value * 2, 0.01F, -value}[random() % 4];
  } else if (attribute->integer) {
    const std::int64_t value = *attribute->integer;
    attribute->integer = std::vector<std::int64_t>{value + 1, value - 1, 0, 1}[random() % 4];
  } else {
    std::shuffle(attribute->integers.begin(), attribute->integers.end(), random);
  }
  return attribute->name + " of " + node->type + " " + node->name;
}

std::string change_operator(ExportedGraph& graph, std::mt19937_64& random) {
  static const std::map<std::string, std::vector<std::string>> others{
      {"Erf", {"Tanh", "Sigmoid"}},
      {"Tanh", {"Erf", "Sigmoid"}},
      {"Add", {"Sub", "Mul", "Max"}},
      {"Sub", {"Add", "Mul"}},
      {"Mul", {"Div", "Add"}},
      {"Div", {"Mul", "Sub"}},
      {"Softmax", {"LogSoftmax", "Hardmax"}},
      {"Sqrt", {"Abs", "Reciprocal", "Exp"}},
      {"ReduceMean", {"ReduceMax", "ReduceSum"}},
      {"ReduceSum", {"ReduceMax", "ReduceMean"}},
      {"ReduceL2", {"ReduceL1", "ReduceSum"}},
      {"Equal", {"Less", "Greater"}},
      {"Greater", {"Less", "Equal"}},
      {"Less", {"Greater", "LessOrEqual"}},
      {"And", {"Or"}},
      {"Or", {"And"}},
      {"Not", {"Identity"}},
      {"Max", {"Min"}},
      {"Min", {"Max"}},
      {"Abs", {"Neg", "Identity"}},
      {"Neg", {"Abs", "Identity"}},
      {"Log", {"Exp"}},
      {"Gelu", {"Relu", "Tanh"}},
      {"FastGelu", {"Gelu"}},
      {"BiasGelu", {"FastGelu"}},
  };
  std::vector<Node*> nodes;
  for (Node& node : graph.nodes) {
    if (others.contains(node.type)) nodes.push_back(&node);
  }
  if (nodes.empty()) return {};
  Node& node = *any_of(nodes, random);
  const std::string before = node.type;
  node.type = any_of(others.at(before), random);
  return before + " " + node.name + " as " + node.type;
}

std::string swap_inputs(ExportedGraph& graph, std::mt19937_64& random) {
  std::vector<Node*> nodes;
  for (Node& node : graph.nodes) {
    if (node.inputs.size() >= 2) nodes.push_back(&node);
  }
  if (nodes.empty()) return {};
  Node& node = *any_of(nodes, random);
  const std::size_t first = random() % node.inputs.size(), second = random() % node.inputs.size();
  std::swap(node.inputs[first], node.inputs[second]);
  return "inputs of " + node.type + " " + node.name;
}

// To a value that the same operator, or any, makes further ahead.
std::string move_edge(ExportedGraph& graph, std::mt19937_64& random) {
  const std::size_t at = random() % graph.nodes.size();
  Node& node = graph.nodes[at];
  if (node.inputs.empty()) return {};
  std::string& input = any_of(node.inputs, random);
  std::string maker;
  for (const Node& other : graph.nodes) {
    if (!other.outputs.empty() && other.outputs.front() == input) maker = other.type;
  }
  std::vector<std::string> values = maker.empty() ? graph.inputs : std::vector<std::string>();
  const bool is_any = random() % 4 == 0;
  for (std::size_t i = 0; i < at; ++i) {
    if ((is_any || graph.nodes[i].type == maker) && !graph.nodes[i].outputs.empty()) {
      values.push_back(graph.nodes[i].outputs.front());
    }
  }
  if (maker.empty() && random() % 2 == 0) {
    for (const Tensor& tensor : graph.initializers) {
      if (tensor.raw.empty()) values.push_back(tensor.name);
    }
  }
  std::erase(values, input);
  if (values.empty()) return {};
  const std::string& other = any_of(values, random);
  input = other;
  return "edge of " + node.type + " " + node.name + " to " + other;
}

// Of weights with the same shape two for each other: it is another encoder.
std::string swap_weights(ExportedGraph& graph, std::mt19937_64& random) {
  std::map<std::vector<std::int64_t>, std::vector<Tensor*>> by_shape;
  for (Tensor& tensor : graph.initializers) {
    if (tensor.raw.empty()) by_shape[tensor.dims].push_back(&tensor);
  }
  std::erase_if(by_shape, [](const auto& entry) { return entry.second.size() < 2; });
  if (by_shape.empty()) return {};
  const auto shape = std::next(by_shape.begin(), static_cast<std::ptrdiff_t>(random() % by_shape.size()));
  Tensor &one = *any_of(shape->second, random), &other = *any_of(shape->second, random);
  std::swap(one.others, other.others);
  return "weights " + one.name + " and " + other.name;
}

}  // namespace

ExportedGraph ExportedGraph::read(const std::filesystem::path& compressed) {
  const std::string text = decompressed(compressed);
  ExportedGraph made;
  Message model(text);
  while (model.next()) {
    if (model.field() != 7) {
      made.others_of_model += model.raw();
      continue;
    }
    Message graph = model.message();
    while (graph.next()) {
      if (graph.field() == 1) {
        made.nodes.push_back(read_node(graph.message()));
      } else if (graph.field() == 5) {
        made.initializers.push_back(read_tensor(graph.message()));
      } else {
        if (graph.field() == 11) made.inputs.push_back(name_of_value(graph.message()));
        if (graph.field() == 12) made.outputs.push_back(name_of_value(graph.message()));
        made.others_of_graph += graph.raw();
      }
    }
  }
  return made;
}

std::string ExportedGraph::bytes() const {
  std::string graph = others_of_graph;
  protozero::pbf_writer to_graph(graph);
  for (const Node& node : nodes) to_graph.add_message(1, written(node));
  for (const Tensor& tensor : initializers) to_graph.add_message(5, written(tensor));
  std::string model = others_of_model;
  protozero::pbf_writer to_model(model);
  to_model.add_message(7, graph);
  return model;
}

void write_weights(const std::filesystem::path& folder) {
  constexpr std::size_t weights = 500'000, scales = 5'000;
  const auto write = [&](const char* name, std::size_t count, float least, float width, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<float> values(count);
    // std's distributions differ between libraries; the generator does not.
    for (float& value : values)
      value = least + width * static_cast<float>(random() >> 40) / static_cast<float>(1 << 24);
    std::ofstream(folder / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(count * sizeof(float)));
  };
  write("weights.bin", weights, -0.25F, 0.5F, 20261122);
  write("scales.bin", scales, 0.8F, 0.4F, 7);
}

std::string mutate(ExportedGraph& graph, std::mt19937_64& random) {
  using Change = std::string (*)(ExportedGraph&, std::mt19937_64&);
  static constexpr Change changes[] = {change_float, change_integer, change_attribute, change_operator,
                                       swap_inputs,  move_edge,      move_edge,        swap_weights};
  return changes[random() % std::size(changes)](graph, random);
}

void rename_and_reorder(ExportedGraph& graph, std::mt19937_64& random) {
  std::set<std::string> kept(graph.inputs.begin(), graph.inputs.end());
  kept.insert(graph.outputs.begin(), graph.outputs.end());
  std::map<std::string, std::string> names;
  const auto rename = [&](std::string& name) {
    if (name.empty() || kept.contains(name)) return;
    if (!names.contains(name)) {
      const std::string made = "v" + std::to_string(random() % 100'000'000) + "_" + std::to_string(names.size());
      names[name] = made;
    }
    name = names[name];
  };
  for (Tensor& tensor : graph.initializers) rename(tensor.name);
  for (Node& node : graph.nodes) {
    node.name = "n" + std::to_string(random() % 100'000'000);
    for (std::string& input : node.inputs) rename(input);
    for (std::string& output : node.outputs) rename(output);
  }
  // Any node whose inputs are there may be next.
  std::set<std::string> made;
  for (const Node& node : graph.nodes) made.insert(node.outputs.begin(), node.outputs.end());
  std::vector<Node> left = std::move(graph.nodes);
  graph.nodes.clear();
  while (!left.empty()) {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const bool waits =
          std::ranges::any_of(left[i].inputs, [&](const std::string& input) { return made.contains(input); });
      if (!waits) ready.push_back(i);
    }
    if (ready.empty()) throw std::runtime_error("the graph has a circle");
    const std::size_t next = any_of(ready, random);
    for (const std::string& output : left[next].outputs) made.erase(output);
    graph.nodes.push_back(std::move(left[next]));
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
  }
}

}  // namespace gpux::test
