#include "onnx/quantize.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>

#include "base/files.h"
#include "base/format_message.h"
#include "gpux/error.h"
#include "onnx/message.h"
#include "onnx/model_file.h"
#include "onnx/node_text.h"
#include "onnx/quantize_weights.h"
#include "onnx/rewriting.h"
#include "onnx/schema.h"
#include "onnx/tensor_data.h"
#include "onnx/tensor_header.h"
#include "onnx/text.h"

namespace gpux::onnx {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t first_opset = 11;  // of DynamicQuantizeLinear
constexpr std::int64_t fewest_rows = 16;  // of a table

using Name = std::string_view;

bool has_weights(const NodeText& node) {
  return is_standard(node) && (node.type == "MatMul" || node.type == "Gemm" || node.type == "Gather");
}

std::size_t place_of_weights(const NodeText& node) {
  return node.type == "Gather" ? 0 : 1;
}

bool is_floating(ElementType type) {
  return type == ElementType::float32 || type == ElementType::float16 || type == ElementType::bfloat16 ||
         type == ElementType::float64;
}

void append_node(std::string& graph, std::string_view type, const std::vector<std::string_view>& inputs,
                 const std::vector<std::string_view>& outputs) {
  constexpr std::int32_t type_int = 2;  // AttributeProto.AttributeType
  protozero::pbf_writer writer(graph);
  protozero::pbf_writer node(writer, schema::graph::node);
  for (const std::string_view input : inputs) node.add_bytes(schema::node::input, input.data(), input.size());
  for (const std::string_view output : outputs) node.add_bytes(schema::node::output, output.data(), output.size());
  node.add_bytes(schema::node::name, outputs.front().data(), outputs.front().size());
  node.add_bytes(schema::node::op_type, type.data(), type.size());
  if (type != "Cast") return;
  protozero::pbf_writer attribute(node, schema::node::attribute);
  attribute.add_string(schema::attribute::name, "to");
  attribute.add_int64(schema::attribute::i, static_cast<std::int64_t>(ElementType::float32));
  attribute.add_int32(schema::attribute::type, type_int);
}

/// One use of quantize().
class Quantizer {
 public:
  Quantizer(std::string_view content, const fs::path& path, const QuantizeOptions& options)
      : info_(inspect(content, path)), options_(options), data_(path) {
    require_opset(path);
    require_external_files(info_, path);
    ModelParts parts = split_model(content);
    result_.head = std::move(parts.head);
    graph_ = parts.graph;
  }

  QuantizedModel run() {
    read_graph();
    for (const NodeText& node : nodes_) {
      std::optional<Plan> plan = plan_of(node);
      if (plan) {
        used_.insert(plan->input);
        used_.insert(plan->bias);
      } else {
        note_uses(node);
      }
      plans_.push_back(std::move(plan));
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

  /// Names of the tensors that stand for a weight.
  struct Weights {
    std::string values, scales;
  };

  /// What a node becomes.
  struct Plan {
    Weights weights;
    Name input;  // of the product, or the rows that are gathered
    Name bias;   // may be empty
    bool gathers = false;
  };

  /// Of an input that products share.
  struct QuantizedInput {
    std::string values, scale, zero_point;
  };

  void require_opset(const fs::path& path) const {
    for (const auto& [domain, version] : info_.opsets) {
      if (!domain.empty() || version >= first_opset) continue;
      throw Error(ErrorCode::invalid_model, format_message("'{}' is written for opset {}; int8 needs {} or later",
                                                           file_at(path), version, first_opset));
    }
  }

  [[nodiscard]] bool may_be_given(Name name) const {
    return info_.ir_version >= first_ir_with_overridable_initializers && inputs_.contains(name);
  }

  // Whether it is listed among the inputs, but nobody can give it.
  [[nodiscard]] bool is_fixed(Name input) const {
    const bool is_sparse = sparse_.contains(input) && info_.ir_version < first_ir_with_overridable_initializers;
    return is_sparse || constants_.contains(input);
  }

  static Name name_of_sparse(Message tensor) {
    while (tensor.next()) {
      if (tensor.field() == schema::sparse_tensor::values) return read_tensor_header(tensor.message()).name;
    }
    return {};
  }

  void read_graph() {
    Message graph(graph_);
    while (graph.next()) {
      if (graph.field() == schema::graph::input) inputs_.insert(name_of_value(graph.message()));
      if (graph.field() == schema::graph::output) used_.insert(name_of_value(graph.message()));
      if (graph.field() == schema::graph::sparse_initializer) sparse_.insert(name_of_sparse(graph.message()));
      if (graph.field() != schema::graph::initializer) continue;
      const TensorHeader header = read_tensor_header(graph.message());
      initializers_.push_back({graph.bytes(), header});
      result_.weight_bytes_before += header.byte_size;
    }
    taken_.insert(inputs_.begin(), inputs_.end());
    taken_.insert(sparse_.begin(), sparse_.end());
    for (const Constant& initializer : initializers_) {
      taken_.insert(initializer.header.name);
      if (!may_be_given(initializer.header.name)) constants_.emplace(initializer.header.name, initializer);
    }
    graph = Message(graph_);
    while (graph.next()) {
      switch (graph.field()) {
        case schema::graph::node:
          read_main_node(read_node(graph.raw(), graph.message()));
          break;
        case schema::graph::initializer:
          break;
        case schema::graph::input:
          // What an old model lists among its inputs because it had to.
          if (!is_fixed(name_of_value(graph.message()))) result_.graph += graph.raw();
          break;
        default:
          result_.graph += graph.raw();
          break;
      }
    }
    for (const auto& [name, node] : makers_) ++names_of_nodes_[nodes_[node].name];
  }

  void read_main_node(NodeText node) {
    taken_.insert(node.inputs.begin(), node.inputs.end());
    taken_.insert(node.outputs.begin(), node.outputs.end());
    if (!node.outputs.empty()) makers_.emplace(node.outputs.front(), nodes_.size());
    if (is_standard(node) && node.type == "Constant" && node.outputs.size() == 1) {
      Message attribute = attribute_of(node, "value");
      while (attribute.next()) {
        if (attribute.field() != schema::attribute::t) continue;
        TensorHeader header = read_tensor_header(attribute.message());
        header.name = node.outputs.front();
        if (is_floating(header.type)) result_.weight_bytes_before += header.byte_size;
        constants_.emplace(header.name, Constant{attribute.bytes(), header});
      }
    }
    for_each_subgraph(node, [&](Message graph) { take_names(graph); });
    nodes_.push_back(std::move(node));
  }

  void take_names(Message graph) {
    for_each_node(graph, [&](const NodeText& node) {
      taken_.insert(node.inputs.begin(), node.inputs.end());
      taken_.insert(node.outputs.begin(), node.outputs.end());
      for_each_subgraph(node, [&](Message inner) { take_names(inner); });
    });
    while (graph.next()) {
      if (graph.field() == schema::graph::initializer) taken_.insert(read_tensor_header(graph.message()).name);
      if (graph.field() == schema::graph::input) taken_.insert(name_of_value(graph.message()));
    }
  }

  // What a node that stays as it is needs, also in its subgraphs, where outer values are used by their names.
  void note_uses(const NodeText& node) {
    used_.insert(node.inputs.begin(), node.inputs.end());
    refuse_external_attributes(node);
    for_each_subgraph(node, [&](Message graph) { note_uses_of(node, graph); });
  }

  void note_uses_of(const NodeText& outer, Message graph) {
    std::unordered_set<Name> own;
    Message walk = graph;
    while (walk.next()) {
      if (walk.field() == schema::graph::output) used_.insert(name_of_value(walk.message()));
      if (walk.field() != schema::graph::initializer) continue;
      const TensorHeader header = read_tensor_header(walk.message());
      if (header.external) refuse_external(header);
      if (is_floating(header.type)) own.insert(header.name);
    }
    for_each_node(graph, [&](const NodeText& node) {
      const Name weights = has_weights(node) ? input_of(node, place_of_weights(node)) : Name();
      const auto constant = constants_.find(weights);
      if (own.contains(weights) || (constant != constants_.end() && is_floating(constant->second.header.type))) {
        leave(node, weights, fmt::format("it is inside a subgraph of {}", quote(outer.type)));
      }
      note_uses(node);
    });
  }

  static void refuse_external_attributes(const NodeText& node) {
    for (const std::string_view text : node.attributes) {
      Message attribute(text);
      while (attribute.next()) {
        if (attribute.field() != schema::attribute::t && attribute.field() != schema::attribute::tensors) continue;
        const TensorHeader header = read_tensor_header(attribute.message());
        if (header.external) refuse_external(header);
      }
    }
  }

  [[noreturn]] static void refuse_external(const TensorHeader& header) {
    throw Error(
        ErrorCode::invalid_model,
        fmt::format("tensor {} has external data and is not an initializer of the main graph: a model with such "
                    "tensors is not quantized",
                    quote(header.name)));
  }

  [[nodiscard]] std::string id_of(const NodeText& node) const {
    const auto found = names_of_nodes_.find(node.name);
    const bool is_unique = !node.name.empty() && found != names_of_nodes_.end() && found->second == 1;
    return to_utf8(is_unique || node.outputs.empty() ? node.name : node.outputs.front());
  }

  void leave(const NodeText& node, Name weights, std::string reason) {
    result_.left_alone.push_back({id_of(node), to_utf8(node.type), to_utf8(weights), std::move(reason)});
  }

  // Empty where the node stays; the reason is noted where it has weights.
  std::optional<Plan> plan_of(const NodeText& node) {
    if (!has_weights(node) || node.outputs.empty()) return std::nullopt;
    const Name name = input_of(node, place_of_weights(node));
    const auto constant = constants_.find(name);
    if (constant == constants_.end()) {
      if (const std::string reason = why_not_constant(node, name); !reason.empty()) leave(node, name, reason);
      return std::nullopt;
    }
    const TensorHeader& header = constant->second.header;
    // Sizes and indices are no weights.
    if (!is_floating(header.type)) return std::nullopt;
    std::string reason = why_not(node, header);
    if (reason.empty()) {
      if (std::optional<Plan> plan = quantized(node, constant->second)) {
        result_.quantized.push_back({id_of(node), to_utf8(node.type), to_utf8(name), {}});
        return plan;
      }
      reason = "its weights have NaN or infinities";
    }
    leave(node, name, std::move(reason));
    return std::nullopt;
  }

  [[nodiscard]] std::string why_not_constant(const NodeText& node, Name weights) const {
    const bool has_default = std::any_of(initializers_.begin(), initializers_.end(),
                                         [&](const Constant& one) { return one.header.name == weights; });
    if (has_default) return "its weights are an input that the caller may give";
    const auto left = constants_.find(input_of(node, 0));
    if (node.type != "Gather" && left != constants_.end() && is_floating(left->second.header.type)) {
      return "its weights are the left operand";
    }
    const auto maker = makers_.find(weights);
    if (maker == makers_.end()) return {};
    const NodeText& made_by = nodes_[maker->second];
    const bool from_constants =
        !made_by.inputs.empty() && std::all_of(made_by.inputs.begin(), made_by.inputs.end(),
                                               [&](Name input) { return input.empty() || constants_.contains(input); });
    return from_constants ? fmt::format("its weights are made by a node {}", quote(made_by.type)) : "";
  }

  [[nodiscard]] std::string why_not(const NodeText& node, const TensorHeader& header) const {
    if (options_.left_alone.contains(id_of(node))) return "asked for";
    if (header.type != ElementType::float32) {
      return fmt::format("its weights are {}, and float32 is quantized", to_string(header.type));
    }
    if (header.shape.size() != 2) {
      return fmt::format("its weights have {} dimensions, and two are quantized", header.shape.size());
    }
    if (header.element_count == 0) return "its weights have no elements";
    if (constants_.contains(input_of(node, node.type == "Gather" ? 1 : 0))) return "both its operands are constants";
    if (node.type == "Gather") {
      const std::int64_t axis = integer_attribute(node, "axis", 0);
      if (axis != 0 && axis != -2) return fmt::format("it takes parts along axis {}, not rows", axis);
      if (header.shape[0] < fewest_rows) return fmt::format("a table of {} rows saves nothing", header.shape[0]);
    }
    if (node.type == "Gemm") {
      if (integer_attribute(node, "transA", 0) != 0) return "its input is transposed";
      const float beta = float_attribute(node, "beta", 1);
      if (beta != 1 && !input_of(node, 2).empty()) return fmt::format("its beta is {}", beta);
    }
    return {};
  }

  std::optional<Plan> quantized(const NodeText& node, const Constant& constant) {
    const bool gathers = node.type == "Gather";
    const bool is_turned = node.type == "Gemm" && integer_attribute(node, "transB", 0) != 0;
    const float alpha = node.type == "Gemm" ? float_attribute(node, "alpha", 1) : 1;
    // Nodes that share a weight share what is made of it.
    const std::string key = fmt::format("{}|{}|{}|{}", gathers, is_turned, alpha, constant.header.name);
    auto [place, is_new] = weights_.try_emplace(key);
    if (is_new) place->second = gathers ? rows_of(constant) : columns_of(constant, is_turned, alpha);
    const std::optional<Weights>& weights = place->second;
    if (!weights) return std::nullopt;
    return Plan{.weights = *weights,
                .input = input_of(node, gathers ? 1 : 0),
                .bias = node.type == "Gemm" ? input_of(node, 2) : Name(),
                .gathers = gathers};
  }

  std::optional<Weights> columns_of(const Constant& constant, bool is_turned, float alpha) {
    const Shape& shape = constant.header.shape;
    const std::int64_t rows = shape[is_turned ? 1 : 0], columns = shape[is_turned ? 0 : 1];
    std::optional<QuantizedMatrix> matrix =
        quantize_columns(data_.floats(Message(constant.tensor), constant.header), static_cast<std::size_t>(rows),
                         static_cast<std::size_t>(columns), is_turned, options_.reduce_range);
    if (!matrix) return std::nullopt;
    for (float& scale : matrix->scales) scale *= alpha;
    return add(constant.header.name, *matrix, {rows, columns}, {columns});
  }

  std::optional<Weights> rows_of(const Constant& constant) {
    const Shape& shape = constant.header.shape;
    const std::optional<QuantizedMatrix> matrix =
        quantize_rows(data_.floats(Message(constant.tensor), constant.header), static_cast<std::size_t>(shape[0]),
                      static_cast<std::size_t>(shape[1]));
    if (!matrix) return std::nullopt;
    return add(constant.header.name, *matrix, shape, {shape[0], 1});
  }

  Weights add(Name name, const QuantizedMatrix& matrix, const Shape& shape, const Shape& shape_of_scales) {
    Weights weights{fresh(name, "quantized"), fresh(name, "scale")};
    add_tensor(weights.values, ElementType::int8, shape, std::as_bytes(std::span(matrix.values)));
    add_tensor(weights.scales, ElementType::float32, shape_of_scales, std::as_bytes(std::span(matrix.scales)));
    return weights;
  }

  void add_tensor(std::string_view name, ElementType type, const Shape& shape, std::span<const std::byte> bytes) {
    require_fitting(new_tensors_.size() + bytes.size(), "quantized");
    append_tensor(new_tensors_, name, type, shape, bytes);
    result_.weight_bytes_after += bytes.size();
  }

  std::string fresh(Name stem, std::string_view ending) {
    std::string name = fmt::format("{}_{}", stem, ending);
    for (int i = 2; taken_.contains(name) || made_up_.contains(name); ++i) {
      name = fmt::format("{}_{}_{}", stem, ending, i);
    }
    made_up_.insert(name);
    return name;
  }

  void write_node(const NodeText& node, const std::optional<Plan>& plan) {
    std::string& graph = result_.graph;
    if (!plan) {
      const bool is_unused_constant = is_standard(node) && node.type == "Constant" && node.outputs.size() == 1 &&
                                      constants_.contains(node.outputs[0]) && !used_.contains(node.outputs[0]);
      if (is_unused_constant) return;
      graph += node.raw;
      const auto constant =
          node.type == "Constant" && !node.outputs.empty() ? constants_.find(node.outputs.front()) : constants_.end();
      if (constant != constants_.end() && is_floating(constant->second.header.type)) {
        result_.weight_bytes_after += constant->second.header.byte_size;
      }
      return;
    }
    const Name output = node.outputs.front();
    const std::string as_float = fresh(output, "float");
    const std::string scales = fresh(output, "scales");
    if (plan->gathers) {
      const std::string rows = fresh(output, "rows");
      append_node(graph, "Gather", {plan->weights.values, plan->input}, {rows});
      append_node(graph, "Gather", {plan->weights.scales, plan->input}, {scales});
      append_node(graph, "Cast", {rows}, {as_float});
      append_node(graph, "Mul", {as_float, scales}, {output});
      return;
    }
    const QuantizedInput& input = quantized_input(plan->input);
    const std::string sums = fresh(output, "sums");
    append_node(graph, "MatMulInteger", {input.values, plan->weights.values, input.zero_point}, {sums});
    append_node(graph, "Cast", {sums}, {as_float});
    append_node(graph, "Mul", {input.scale, plan->weights.scales}, {scales});
    if (plan->bias.empty()) {
      append_node(graph, "Mul", {as_float, scales}, {output});
    } else {
      const std::string product = fresh(output, "product");
      append_node(graph, "Mul", {as_float, scales}, {product});
      append_node(graph, "Add", {product, plan->bias}, {output});
    }
  }

  const QuantizedInput& quantized_input(Name input) {
    auto [place, is_new] = quantized_inputs_.try_emplace(input);
    if (is_new) {
      QuantizedInput& names = place->second;
      names = {fresh(input, "quantized"), fresh(input, "scale"), fresh(input, "zero_point")};
      append_node(result_.graph, "DynamicQuantizeLinear", {input}, {names.values, names.scale, names.zero_point});
    }
    return place->second;
  }

  void write_initializers() {
    for (const Constant& initializer : initializers_) {
      const TensorHeader& header = initializer.header;
      if (constants_.contains(header.name) && !used_.contains(header.name)) continue;
      require_fitting(result_.graph.size() + new_tensors_.size() + header.byte_size, "quantized");
      result_.weight_bytes_after += header.byte_size;
      append_initializer(result_.graph, initializer.tensor, header, data_);
    }
    require_fitting(result_.graph.size() + new_tensors_.size(), "quantized");
    result_.graph += new_tensors_;
  }

  ModelInfo info_;
  const QuantizeOptions& options_;
  TensorData data_;
  std::string_view graph_;
  QuantizedModel result_;

  std::vector<NodeText> nodes_;  // of the main graph
  std::vector<std::optional<Plan>> plans_;
  std::vector<Constant> initializers_;
  std::unordered_map<Name, Constant> constants_;             // initializers that nobody can replace, and nodes Constant
  std::unordered_map<Name, std::size_t> makers_;             // by first output
  std::unordered_map<Name, int> names_of_nodes_;             // how many have it
  std::unordered_set<Name> inputs_, sparse_, used_, taken_;  // names of values
  std::unordered_set<std::string> made_up_;
  std::map<std::string, std::optional<Weights>> weights_;  // empty: there is NaN in it
  std::unordered_map<Name, QuantizedInput> quantized_inputs_;
  std::string new_tensors_;  // initializers, as they will stand in the graph
};

}  // namespace

void QuantizedModel::write(const fs::path& file) const {
  FileReplacement replacement(file);
  replacement.append(std::as_bytes(std::span(head)));
  replacement.append(std::as_bytes(std::span(graph)));
  replacement.commit();
}

QuantizedModel quantize(std::string_view content, const fs::path& path, const QuantizeOptions& options) {
  try {
    return Quantizer(content, path, options).run();
  } catch (const MalformedMessage& reason) {
    throw damaged_model(path, reason, content);
  }
}

QuantizedModel quantize(const fs::path& path, const QuantizeOptions& options) {
  const MappedFile file(path);
  return quantize(file.text(), path, options);
}

}  // namespace gpux::onnx
