#include "onnx/half.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>

#include "base/files.h"
#include "gpux/error.h"
#include "onnx/float32_nodes.h"
#include "onnx/message.h"
#include "onnx/model_file.h"
#include "onnx/node_text.h"
#include "onnx/rewriting.h"
#include "onnx/schema.h"
#include "onnx/tensor_data.h"
#include "onnx/tensor_header.h"
#include "onnx/text.h"
#include "tensor/small_float.h"

namespace gpux::onnx {
namespace {

namespace fs = std::filesystem;
using Name = std::string_view;

constexpr std::uint16_t half_nan = 0x7e00;

/// What is known of a value.
enum class Kind : std::uint8_t { unknown, float32, other };

/// Inputs that have the type of the output: all of them, or those at these places.
struct Operator {
  Name type;
  std::uint8_t places;  // a bit each
};

constexpr std::uint8_t all_places = 0xff, first_place = 1;

// That compute in the type of their inputs, and have float16 among it.
constexpr std::array<Operator, 78> operators{{
    {"Abs", all_places},
    {"Add", all_places},
    {"AveragePool", first_place},
    {"BatchNormalization", all_places},
    {"Clip", all_places},
    {"Concat", all_places},
    {"Conv", all_places},
    {"ConvTranspose", all_places},
    {"Cos", all_places},
    {"DepthToSpace", first_place},
    {"Div", all_places},
    {"Einsum", all_places},
    {"Elu", all_places},
    {"Erf", all_places},
    {"Exp", all_places},
    {"Expand", first_place},
    {"Flatten", first_place},
    {"Gather", first_place},
    {"GatherElements", first_place},
    {"GatherND", first_place},
    {"Gelu", all_places},
    {"Gemm", all_places},
    {"GlobalAveragePool", all_places},
    {"GlobalMaxPool", all_places},
    {"GroupNormalization", all_places},
    {"HardSigmoid", all_places},
    {"HardSwish", all_places},
    {"Identity", all_places},
    {"InstanceNormalization", all_places},
    {"LRN", all_places},
    {"LayerNormalization", all_places},
    {"LeakyRelu", all_places},
    {"Log", all_places},
    {"LogSoftmax", all_places},
    {"MatMul", all_places},
    {"Max", all_places},
    {"MaxPool", first_place},
    {"Mean", all_places},
    {"Min", all_places},
    {"Mish", all_places},
    {"Mul", all_places},
    {"Neg", all_places},
    {"PRelu", all_places},
    {"Pad", 1 | 4},
    {"Pow", all_places},
    {"RMSNormalization", all_places},
    {"Reciprocal", all_places},
    {"ReduceL1", first_place},
    {"ReduceL2", first_place},
    {"ReduceMax", first_place},
    {"ReduceMean", first_place},
    {"ReduceMin", first_place},
    {"ReduceSum", first_place},
    {"ReduceSumSquare", first_place},
    {"Relu", all_places},
    {"Reshape", first_place},
    {"Round", all_places},
    {"Selu", all_places},
    {"Sigmoid", all_places},
    {"Sign", all_places},
    {"Sin", all_places},
    {"Slice", first_place},
    {"Softmax", first_place},
    {"Softplus", all_places},
    {"Softsign", all_places},
    {"SpaceToDepth", first_place},
    {"Split", first_place},
    {"Sqrt", all_places},
    {"Squeeze", first_place},
    {"Sub", all_places},
    {"Sum", all_places},
    {"Swish", all_places},
    {"Tanh", all_places},
    {"ThresholdedRelu", all_places},
    {"Tile", first_place},
    {"Transpose", first_place},
    {"Unsqueeze", first_place},
    {"Where", 2 | 4},
}};

const Operator* operator_of(const NodeText& node) {
  if (!is_standard(node)) return nullptr;
  const auto found = std::ranges::lower_bound(operators, node.type, {}, &Operator::type);
  return found != operators.end() && found->type == node.type ? &*found : nullptr;
}

bool has_type_of_output(const Operator& row, std::size_t place) {
  return row.places == all_places || (place < 8 && (row.places >> place & 1U) != 0);
}

// Operators that stay, whose first output has the type of the input at that place.
std::optional<std::size_t> place_of_type(Name type) {
  static constexpr std::array<std::pair<Name, std::size_t>, 13> places{{{"CumSum", 0},
                                                                        {"DequantizeLinear", 1},
                                                                        {"Dropout", 0},
                                                                        {"GridSample", 0},
                                                                        {"OneHot", 2},
                                                                        {"Range", 0},
                                                                        {"Resize", 0},
                                                                        {"RoiAlign", 0},
                                                                        {"ScatterElements", 0},
                                                                        {"ScatterND", 0},
                                                                        {"TopK", 0},
                                                                        {"Trilu", 0},
                                                                        {"Upsample", 0}}};
  for (const auto& [name, place] : places) {
    if (name == type) return place;
  }
  return std::nullopt;
}

bool gives_no_floats(Name type) {
  static constexpr std::array<Name, 17> names{{"And", "ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "IsInf",
                                               "IsNaN", "Less", "LessOrEqual", "NonMaxSuppression", "NonZero", "Not",
                                               "Or", "Shape", "Size", "Xor"}};
  return std::ranges::find(names, type) != names.end();
}

Kind kind_of(ElementType type) {
  return type == ElementType::float32 ? Kind::float32 : type == ElementType::undefined ? Kind::unknown : Kind::other;
}

std::uint16_t half_of(float number) {
  if (std::isnan(number)) return half_nan;
  const auto most = static_cast<float>(largest_finite(ElementType::float16));
  return round_to_small_float(ElementType::float16, std::clamp(number, -most, most)).bits;
}

void append_cast(std::string& graph, Name from, Name to, ElementType type) {
  constexpr std::int32_t type_int = 2;  // AttributeProto.AttributeType
  protozero::pbf_writer writer(graph);
  protozero::pbf_writer node(writer, schema::graph::node);
  node.add_bytes(schema::node::input, from.data(), from.size());
  node.add_bytes(schema::node::output, to.data(), to.size());
  node.add_string(schema::node::name, fmt::format("{}_cast", to));
  node.add_string(schema::node::op_type, "Cast");
  protozero::pbf_writer attribute(node, schema::node::attribute);
  attribute.add_string(schema::attribute::name, "to");
  attribute.add_int64(schema::attribute::i, static_cast<std::int64_t>(type));
  attribute.add_int32(schema::attribute::type, type_int);
}

/// One use of to_float16().
class Halver {
 public:
  Halver(std::string_view content, const fs::path& path, const std::set<std::string, std::less<>>& left_alone)
      : info_(inspect(content, path)), left_alone_(left_alone), data_(path) {
    require_external_files(info_, path);
    ModelParts parts = split_model(content);
    result_.head = std::move(parts.head);
    graph_ = parts.graph;
  }

  QuantizedModel run() {
    read_graph();
    const std::unordered_set<std::size_t> in_float32 = float32_nodes(nodes_);
    const std::unordered_set<std::size_t> of_constants = nodes_of_constants();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      plans_.push_back(plan_of(nodes_[i], in_float32.contains(i) || of_constants.contains(i)));
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (plans_[i] == nullptr) {
        if (!of_constants.contains(i)) note_uses(nodes_[i]);
        continue;
      }
      for (std::size_t k = 0; k < nodes_[i].inputs.size(); ++k) {
        if (!has_type_of_output(*plans_[i], k)) needed_.insert(nodes_[i].inputs[k]);
      }
    }
    const std::unordered_set<Name> in_float16 = values_in_float16();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (of_constants.contains(i)) note_uses_of_constants(nodes_[i], in_float16);
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) write_node(nodes_[i], plans_[i]);
    write_initializers();
    append_graph_key(result_.head, result_.graph);
    return std::move(result_);
  }

 private:
  /// A tensor that is the same in every run.
  struct Constant {
    std::string_view tensor;
    TensorHeader header;
  };

  [[nodiscard]] Kind kind(Name value) const {
    const auto found = kinds_.find(value);
    return found == kinds_.end() ? Kind::unknown : found->second;
  }

  void read_graph() {
    for (const SignatureEntry& input : info_.signature.inputs) {
      if (input.type.kind == ValueKind::tensor) input_types_[input.name] = input.type.element;
    }
    std::unordered_set<Name> inputs;
    Message graph(graph_);
    while (graph.next()) {
      if (graph.field() == schema::graph::input) inputs.insert(name_of_value(graph.message()));
      if (graph.field() == schema::graph::output) needed_.insert(name_of_value(graph.message()));
      if (graph.field() != schema::graph::initializer) continue;
      const TensorHeader header = read_tensor_header(graph.message());
      initializers_.push_back({graph.bytes(), header});
      kinds_[header.name] = kind_of(header.type);
      result_.weight_bytes_before += header.byte_size;
    }
    for (const Name input : inputs) {
      taken_.insert(std::string(input));
      const auto type = input_types_.find(std::string(input));
      if (type != input_types_.end()) kinds_[input] = kind_of(type->second);
    }
    const bool can_be_given = info_.ir_version >= first_ir_with_overridable_initializers;
    for (const Constant& initializer : initializers_) {
      taken_.insert(std::string(initializer.header.name));
      if (!can_be_given || !inputs.contains(initializer.header.name)) {
        constants_.emplace(initializer.header.name, initializer);
      }
    }
    graph = Message(graph_);
    while (graph.next()) {
      switch (graph.field()) {
        case schema::graph::node:
          read_main_node(read_node(graph.raw(), graph.message()));
          break;
        case schema::graph::initializer:
        case schema::graph::value_info:  // of values that may be of another type now
          break;
        case schema::graph::input:
          // What an old model lists among its inputs because it had to.
          if (!constants_.contains(name_of_value(graph.message()))) result_.graph += graph.raw();
          break;
        default:
          result_.graph += graph.raw();
          break;
      }
    }
  }

  void read_main_node(NodeText node) {
    for (const Name output : node.outputs) taken_.insert(std::string(output));
    for_each_subgraph(node, [&](Message graph) { take_names(graph); });
    ++names_of_nodes_[node.name];
    if (is_standard(node) && node.type == "Constant" && node.outputs.size() == 1) {
      Message attribute = attribute_of(node, "value");
      while (attribute.next()) {
        if (attribute.field() != schema::attribute::t) continue;
        TensorHeader header = read_tensor_header(attribute.message());
        header.name = node.outputs.front();
        if (!header.external) constants_.emplace(header.name, Constant{attribute.bytes(), header});
      }
    }
    nodes_.push_back(std::move(node));
  }

  void take_names(Message graph) {
    for_each_node(graph, [&](const NodeText& node) {
      for (const Name output : node.outputs) taken_.insert(std::string(output));
      for_each_subgraph(node, [&](Message inner) { take_names(inner); });
    });
    while (graph.next()) {
      if (graph.field() == schema::graph::initializer)
        taken_.insert(std::string(read_tensor_header(graph.message()).name));
      if (graph.field() == schema::graph::input) taken_.insert(std::string(name_of_value(graph.message())));
    }
  }

  // What a node that stays needs in its own type, also in its subgraphs.
  void note_uses(const NodeText& node) {
    needed_.insert(node.inputs.begin(), node.inputs.end());
    for_each_subgraph(node, [&](Message graph) {
      for_each_node(graph, [&](const NodeText& inner) { note_uses(inner); });
      while (graph.next()) {
        if (graph.field() == schema::graph::output) needed_.insert(name_of_value(graph.message()));
      }
    });
  }

  [[nodiscard]] std::unordered_set<std::size_t> nodes_of_constants() const {
    std::unordered_set<Name> names;
    for (const auto& [name, constant] : constants_) names.insert(name);
    return constant_nodes(nodes_, std::move(names));
  }

  [[nodiscard]] std::unordered_set<Name> values_in_float16() const {
    std::unordered_set<Name> values;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (plans_[i] == nullptr) continue;
      for (std::size_t k = 0; k < nodes_[i].inputs.size(); ++k) {
        if (has_type_of_output(*plans_[i], k)) values.insert(nodes_[i].inputs[k]);
      }
    }
    return values;
  }

  // Weights that other nodes have in float16 are stored once, and cast.
  void note_uses_of_constants(const NodeText& node, const std::unordered_set<Name>& in_float16) {
    for (const Name input : node.inputs) {
      if (!needed_.insert(input).second || !constants_.contains(input) || !in_float16.contains(input)) continue;
      append_cast(result_.graph, halved(input), input, ElementType::float32);
      stored_as_half_.insert(input);
    }
  }

  [[nodiscard]] std::string id_of(const NodeText& node) const {
    const auto found = names_of_nodes_.find(node.name);
    const bool is_unique = !node.name.empty() && found != names_of_nodes_.end() && found->second == 1;
    return to_utf8(is_unique || node.outputs.empty() ? node.name : node.outputs.front());
  }

  // The constant of float32 that the node computes with; empty where it has none.
  [[nodiscard]] Name weights_of(const NodeText& node) const {
    for (const Name input : node.inputs) {
      const auto constant = constants_.find(input);
      if (constant != constants_.end() && constant->second.header.type == ElementType::float32 &&
          constant->second.header.element_count > 1) {
        return input;
      }
    }
    return {};
  }

  // Null where the node stays. Notes the kinds of its outputs.
  const Operator* plan_of(const NodeText& node, bool is_in_float32) {
    const Operator* row = operator_of(node);
    const Kind computed = row == nullptr ? Kind::unknown : kind_of_inputs(node, *row);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].empty()) kinds_[node.outputs[i]] = kind_of_output(node, i, row, computed);
    }
    if (computed != Kind::float32 || (node.outputs.size() != 1 && node.type != "Split")) return nullptr;
    if (is_in_float32) return nullptr;
    const Name weights = weights_of(node);
    if (left_alone_.contains(id_of(node))) {
      if (!weights.empty()) {
        result_.left_alone.push_back({id_of(node), to_utf8(node.type), to_utf8(weights), "asked for"});
      }
      return nullptr;
    }
    if (!weights.empty()) result_.quantized.push_back({id_of(node), to_utf8(node.type), to_utf8(weights), {}});
    return row;
  }

  // Of those that have the type of the output: float32 where all are.
  [[nodiscard]] Kind kind_of_inputs(const NodeText& node, const Operator& row) const {
    Kind all = Kind::unknown;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].empty() || !has_type_of_output(row, i)) continue;
      const Kind one = kind(node.inputs[i]);
      if (one == Kind::unknown || (all != Kind::unknown && all != one)) return Kind::unknown;
      all = one;
    }
    return all;
  }

  [[nodiscard]] Kind kind_of_output(const NodeText& node, std::size_t place, const Operator* row, Kind computed) const {
    if (row != nullptr) return place == 0 || node.type == "Split" ? computed : Kind::unknown;
    if (!is_standard(node)) return Kind::unknown;
    if (gives_no_floats(node.type)) return Kind::other;
    if (node.type == "Cast") {
      return kind_of(static_cast<ElementType>(integer_attribute(node, "to", 0)));
    }
    if (node.type == "Constant") {
      const auto constant = constants_.find(node.outputs.front());
      if (constant != constants_.end()) return kind_of(constant->second.header.type);
      Message number = attribute_of(node, "value_float");
      Message numbers = attribute_of(node, "value_floats");
      return number.next() || numbers.next() ? Kind::float32 : Kind::unknown;
    }
    if (node.type == "ConstantOfShape") {
      Message attribute = attribute_of(node, "value");
      while (attribute.next()) {
        if (attribute.field() == schema::attribute::t) return kind_of(read_tensor_header(attribute.message()).type);
      }
      return Kind::float32;
    }
    const std::optional<std::size_t> type_place = place_of_type(node.type);
    return type_place && place == 0 ? kind(input_of(node, *type_place)) : Kind::unknown;
  }

  std::string fresh(Name stem) {
    std::string name = fmt::format("{}_half", stem);
    for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("{}_half_{}", stem, i);
    return name;
  }

  // The name of the value in float16, which is made where it is not there yet.
  const std::string& halved(Name value) {
    const auto [place, is_new] = halves_.try_emplace(value);
    if (!is_new) return place->second;
    place->second = fresh(value);
    const auto constant = constants_.find(value);
    if (constant == constants_.end()) {
      append_cast(result_.graph, value, place->second, ElementType::float16);
      needed_.insert(value);
      return place->second;
    }
    const std::vector<float> numbers = data_.floats(Message(constant->second.tensor), constant->second.header);
    std::vector<std::uint16_t> halves(numbers.size());
    std::ranges::transform(numbers, halves.begin(), half_of);
    require_fitting(new_tensors_.size() + 2 * halves.size(), "in float16");
    append_tensor(new_tensors_, place->second, ElementType::float16, constant->second.header.shape,
                  std::as_bytes(std::span(halves)));
    result_.weight_bytes_after += 2 * halves.size();
    return place->second;
  }

  void write_node(const NodeText& node, const Operator* row) {
    if (row == nullptr) {
      const bool is_unused_constant = node.type == "Constant" && node.outputs.size() == 1 &&
                                      constants_.contains(node.outputs[0]) && !needed_.contains(node.outputs[0]);
      const bool is_stored_as_half = node.outputs.size() == 1 && stored_as_half_.contains(node.outputs[0]);
      if (!is_unused_constant && !is_stored_as_half) result_.graph += node.raw;
      return;
    }
    std::vector<std::string> inputs, outputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const bool is_float = !node.inputs[i].empty() && has_type_of_output(*row, i);
      inputs.emplace_back(is_float ? halved(node.inputs[i]) : std::string(node.inputs[i]));
    }
    for (const Name output : node.outputs) {
      outputs.push_back(output.empty() ? std::string() : halves_.emplace(output, fresh(output)).first->second);
    }
    protozero::pbf_writer writer(result_.graph);
    {
      protozero::pbf_writer written(writer, schema::graph::node);
      for (const std::string& input : inputs) written.add_string(schema::node::input, input);
      for (const std::string& output : outputs) written.add_string(schema::node::output, output);
      written.add_bytes(schema::node::name, node.name.data(), node.name.size());
      written.add_bytes(schema::node::op_type, node.type.data(), node.type.size());
      for (const std::string_view attribute : node.attributes) {
        written.add_bytes(schema::node::attribute, attribute.data(), attribute.size());
      }
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (needed_.contains(node.outputs[i]))
        append_cast(result_.graph, outputs[i], node.outputs[i], ElementType::float32);
    }
  }

  void write_initializers() {
    for (const Constant& initializer : initializers_) {
      const TensorHeader& header = initializer.header;
      const bool was_used_as_half = halves_.contains(header.name) && constants_.contains(header.name);
      if (was_used_as_half && !needed_.contains(header.name)) continue;
      if (stored_as_half_.contains(header.name)) continue;
      require_fitting(result_.graph.size() + new_tensors_.size() + header.byte_size, "in float16");
      result_.weight_bytes_after += header.byte_size;
      append_initializer(result_.graph, initializer.tensor, header, data_);
    }
    require_fitting(result_.graph.size() + new_tensors_.size(), "in float16");
    result_.graph += new_tensors_;
  }

  ModelInfo info_;
  const std::set<std::string, std::less<>>& left_alone_;
  TensorData data_;
  std::string_view graph_;
  QuantizedModel result_;

  std::vector<NodeText> nodes_;         // of the main graph
  std::vector<const Operator*> plans_;  // null: the node stays
  std::vector<Constant> initializers_;
  std::map<std::string, ElementType, std::less<>> input_types_;
  std::unordered_map<Name, Constant> constants_;  // initializers that nobody can replace, and nodes Constant
  std::unordered_map<Name, Kind> kinds_;
  std::unordered_map<Name, int> names_of_nodes_;  // how many have it
  std::unordered_set<Name> needed_;               // values that somebody needs in their own type
  std::unordered_set<Name> stored_as_half_;       // of those, weights that a cast makes of float16 ones
  std::unordered_set<std::string> taken_;         // names of values
  std::unordered_map<Name, std::string> halves_;  // value to its name in float16
  std::string new_tensors_;                       // initializers, as they will stand in the graph
};

}  // namespace

QuantizedModel to_float16(std::string_view content, const fs::path& path,
                          const std::set<std::string, std::less<>>& left_alone) {
  try {
    return Halver(content, path, left_alone).run();
  } catch (const MalformedMessage& reason) {
    throw damaged_model(path, reason, content);
  }
}

QuantizedModel to_float16(const fs::path& path, const std::set<std::string, std::less<>>& left_alone) {
  const MappedFile file(path);
  return to_float16(file.text(), path, left_alone);
}

}  // namespace gpux::onnx
