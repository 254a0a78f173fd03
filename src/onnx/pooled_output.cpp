#include "onnx/pooled_output.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "onnx/graph_writer.h"
#include "onnx/message.h"
#include "onnx/rewriting.h"
#include "onnx/schema.h"

namespace gpux::onnx {
namespace {

constexpr std::int64_t least_opset = 12;           // GatherND with batch_dims
constexpr std::int64_t opset_of_axes_inputs = 13;  // ReduceSum, Squeeze, Unsqueeze
constexpr std::int64_t opset_of_max_axes = 18;     // ReduceMax

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_model, message);
}

const SignatureEntry& entry_of(const std::vector<SignatureEntry>& entries, const std::string& name, std::size_t rank) {
  const auto found = std::ranges::find(entries, name, &SignatureEntry::name);
  if (found == entries.end()) refuse(fmt::format("the model has no '{}'", name));
  const ValueType& type = found->type;
  if (type.kind != ValueKind::tensor || !type.dimensions || type.dimensions->size() != rank) {
    refuse(fmt::format("'{}' is {}, not of rank {}", name, to_string(type), rank));
  }
  return *found;
}

/// What a model has beside its signature.
struct ModelFacts {
  std::int64_t opset = 0;
  std::string graph_name;
};

std::int64_t standard_version(Message entry) {
  std::string_view domain;
  std::int64_t version = 0;
  while (entry.next()) {
    if (entry.field() == schema::opset::domain) domain = entry.bytes();
    if (entry.field() == schema::opset::version) version = entry.integer();
  }
  return domain.empty() || domain == "ai.onnx" ? version : 0;
}

ModelFacts facts_of(std::string_view content) {
  ModelFacts facts;
  Message model(content);
  while (model.next()) {
    if (model.field() == schema::model::opset_import)
      facts.opset = std::max(facts.opset, standard_version(model.message()));
    if (model.field() != schema::model::graph) continue;
    Message graph = model.message();
    while (graph.next()) {
      if (graph.field() == schema::graph::name) facts.graph_name = graph.bytes();
    }
  }
  return facts;
}

/// Writes the nodes between the vectors of the tokens and those of the texts.
class PoolingNodes {
 public:
  PoolingNodes(const ModelFacts& facts, const PooledOutput& pooled, ElementType type)
      : graph_(facts.graph_name, "gpux_pooling/"), opset_(facts.opset), mask_input_(pooled.attention_mask) {
    hidden_ = type == ElementType::float32 ? pooled.token_vectors : cast(pooled.token_vectors, ElementType::float32);
    mask_ = cast(mask_input_, ElementType::float32);
  }

  void write(const PooledOutput& pooled) {
    std::vector<std::string> vectors;
    for (const Pooling pooling : pooled.poolings) vectors.push_back(vector_of(pooling));
    const std::string all =
        vectors.size() == 1 ? vectors.front() : graph_.node("Concat", vectors, {{"axis", std::int64_t{1}}});
    if (!pooled.normalizes) {
      graph_.node("Identity", {all}, {}, PooledOutput::name);
      return;
    }
    constexpr float least_length = 1e-12F;
    const std::string squares = with_axes("ReduceSum", graph_.node("Mul", {all, all}), 1, true);
    const std::string length = graph_.node("Max", {graph_.node("Sqrt", {squares}), graph_.scalar(least_length)});
    graph_.node("Div", {all, length}, {}, PooledOutput::name);
  }

  [[nodiscard]] GraphWriter& graph() noexcept { return graph_; }

 private:
  std::string cast(const std::string& value, ElementType type) {
    return graph_.node("Cast", {value}, {{"to", static_cast<std::int64_t>(type)}});
  }

  // An operator that works along an axis.
  std::string with_axes(std::string_view type, const std::string& value, std::int64_t axis,
                        std::optional<bool> keeps_dimensions = {}) {
    Attributes attributes;
    if (keeps_dimensions) attributes.emplace_back("keepdims", std::int64_t{*keeps_dimensions ? 1 : 0});
    if (opset_ >= (type == "ReduceMax" ? opset_of_max_axes : opset_of_axes_inputs)) {
      return graph_.node(type, {value, graph_.integers(std::array{axis})}, attributes);
    }
    attributes.emplace_back("axes", std::vector<std::int64_t>{axis});
    return graph_.node(type, {value}, attributes);
  }

  // [batch, 1], at least so much that it can divide.
  std::string total(const std::string& weights) {
    constexpr float least_weight = 1e-9F;
    return graph_.node("Max", {with_axes("ReduceSum", weights, 1, true), graph_.scalar(least_weight)});
  }

  // A product adds up in the same order whatever the batch; ONNX Runtime's ReduceSum does not.
  std::string weighted_sum(const std::string& weights) {
    return with_axes("Squeeze", graph_.node("MatMul", {with_axes("Unsqueeze", weights, 1), hidden_}), 1);
  }

  std::string vector_of(Pooling pooling) {
    switch (pooling) {
      case Pooling::cls:
        return graph_.node("Gather", {hidden_, graph_.integer(0)}, {{"axis", std::int64_t{1}}});
      case Pooling::max: {
        const std::string is_token = with_axes("Unsqueeze", cast(mask_input_, ElementType::boolean), 2);
        const std::string tokens =
            graph_.node("Where", {is_token, hidden_, graph_.scalar(std::numeric_limits<float>::lowest())});
        return with_axes("ReduceMax", tokens, 1, false);
      }
      case Pooling::mean:
        return graph_.node("Div", {weighted_sum(mask_), total(mask_)});
      case Pooling::mean_sqrt_length:
        return graph_.node("Div", {weighted_sum(mask_), graph_.node("Sqrt", {total(mask_)})});
      case Pooling::weighted_mean: {
        const std::string positions = graph_.node("CumSum", {mask_, graph_.integer(1)});
        const std::string weights = graph_.node("Mul", {positions, mask_});
        return graph_.node("Div", {weighted_sum(weights), total(weights)});
      }
      case Pooling::last_token: {
        const std::string count = with_axes("ReduceSum", cast(mask_input_, ElementType::int64), 1, true);
        const std::string index = graph_.node("Sub", {count, graph_.integer(1)});
        return graph_.node("GatherND", {hidden_, index}, {{"batch_dims", std::int64_t{1}}});
      }
    }
    refuse("a pooling that is not known");
  }

  GraphWriter graph_;
  std::int64_t opset_;
  std::string mask_input_, hidden_, mask_;  // the last: as float32
};

}  // namespace

SignatureEntry pooled_entry(const Signature& signature, const PooledOutput& pooled) {
  const SignatureEntry& tokens = entry_of(signature.outputs, pooled.token_vectors, 3);
  const SignatureEntry& mask = entry_of(signature.inputs, pooled.attention_mask, 2);
  const ElementType type = tokens.type.element;
  if (type != ElementType::float32 && type != ElementType::float16 && type != ElementType::bfloat16) {
    refuse(fmt::format("'{}' is of {}", tokens.name, to_string(type)));
  }
  if (mask.type.element != ElementType::int64 && mask.type.element != ElementType::int32) {
    refuse(fmt::format("'{}' is of {}", mask.name, to_string(mask.type.element)));
  }
  if (pooled.poolings.empty()) refuse("no pooling is given");
  if (std::ranges::find(signature.outputs, PooledOutput::name, &SignatureEntry::name) != signature.outputs.end()) {
    refuse(fmt::format("the model has an output '{}'", PooledOutput::name));
  }
  SignatureEntry added = tokens;
  added.name = PooledOutput::name;
  added.type.element = ElementType::float32;
  std::vector<Dimension> dimensions = tokens.type.dimensions.value_or(std::vector<Dimension>(3));
  std::optional<std::int64_t>& width = dimensions[2].size;
  if (width) width = *width * static_cast<std::int64_t>(pooled.poolings.size());
  dimensions.erase(dimensions.begin() + 1);
  added.type.dimensions = std::move(dimensions);
  return added;
}

std::string with_pooled_output(std::string_view content, const Signature& signature, const PooledOutput& pooled) {
  if (content.size() > max_rewritten_bytes) refuse("its file is larger than 1.5 GB");
  const SignatureEntry added = pooled_entry(signature, pooled);
  const ModelFacts facts = facts_of(content);
  if (facts.opset < least_opset) refuse(fmt::format("its opset is {}, below {}", facts.opset, least_opset));
  PoolingNodes nodes(facts, pooled, entry_of(signature.outputs, pooled.token_vectors, 3).type.element);
  nodes.write(pooled);
  std::vector<WrittenSize> sizes;
  for (const Dimension& dimension : added.type.dimensions.value_or(std::vector<Dimension>())) {
    if (dimension.size) {
      sizes.emplace_back(*dimension.size);
    } else {
      sizes.emplace_back(dimension.name.empty() ? std::string("elements") : dimension.name);
    }
  }
  nodes.graph().output(PooledOutput::name, ElementType::float32, sizes);
  const ModelParts parts = split_model(content);
  const std::string& fields = nodes.graph().fields();
  constexpr std::size_t longest_key = 16;
  std::string model;
  model.reserve(parts.head.size() + longest_key + parts.graph.size() + fields.size());
  model = parts.head;
  append_graph_key(model, std::uint64_t{parts.graph.size() + fields.size()});
  model.append(parts.graph).append(fields);
  return model;
}

}  // namespace gpux::onnx
