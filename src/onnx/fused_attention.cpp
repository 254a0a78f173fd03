#include "onnx/fused_attention.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <protozero/pbf_writer.hpp>

#include "onnx/graph_text.h"
#include "onnx/graph_writer.h"
#include "onnx/message.h"
#include "onnx/node_text.h"
#include "onnx/rewriting.h"
#include "onnx/schema.h"
#include "onnx/value_sizes.h"

namespace gpux::onnx {
namespace {

using Name = std::string_view;

constexpr std::int64_t least_opset = 17;  // LayerNormalization; Softmax of one axis, Shape with a start and an end
constexpr Name contributed_domain = "com.microsoft";
constexpr Name made_prefix = "gpux_fused/";

const Sizes heads_first{0, 2, 1, 3};      // both ways: [batch, sequence, heads, head size]
const Sizes keys_transposed{0, 2, 3, 1};  // [batch, sequence, heads, head size] to [batch, heads, head size, sequence]
const Sizes last_two_swapped{0, 1, 3, 2};

bool is(const NodeText* node, Name type) {
  return node != nullptr && is_standard(*node) && node->type == type && !node->outputs.empty();
}

bool has_order(const NodeText* node, const Sizes& order) {
  return is(node, "Transpose") && integers_attribute(*node, "perm") == order;
}

/// What MultiHeadAttention reads. Packed: [batch, sequence, heads * head size]; otherwise as MatMul has it, [batch,
/// heads, sequence, head size].
struct AttentionInputs {
  Name query, key, value, bias;
  bool is_query_packed = false, are_keys_packed = false;
  std::int64_t heads = 0, width = 0;
  std::pair<std::int64_t, std::int64_t> lengths;  // of the scores
};

/// The attention that ends with a node.
struct FoundAttention {
  AttentionInputs inputs;
  std::vector<std::size_t> inner;  // nodes whose results have no other use
  Name query, turned_key, value;   // what the two products read
};

/// The norm that ends with a node.
struct FoundNorm {
  Name input;
  std::vector<Name> weights;  // and the bias
  float epsilon = 0;
  bool is_simplified = false;
  std::vector<std::size_t> inner;  // as those of an attention; none where the norm is one node
};

class Matcher {
 public:
  explicit Matcher(const GraphText& graph) : graph_(graph) {}

  [[nodiscard]] std::optional<FoundAttention> attention_of(const NodeText& end) const {
    FoundAttention found;
    const Sizes* flat = is(&end, "Reshape") ? graph_.integers_of(input_of(end, 1)) : nullptr;
    if (flat == nullptr || flat->size() != 3 || (*flat)[0] != 0 || (*flat)[1] != 0 ||
        integer_attribute(end, "allowzero", 0) != 0) {
      return std::nullopt;
    }
    found.inputs.width = (*flat)[2];
    const NodeText* turned = inner(input_of(end, 0), "Transpose", found.inner);
    if (!has_order(turned, heads_first)) return std::nullopt;
    const NodeText* mixed = inner(input_of(*turned, 0), "MatMul", found.inner);
    const NodeText* shares = mixed == nullptr ? nullptr : inner(input_of(*mixed, 0), "Softmax", found.inner);
    if (shares == nullptr || !is_on_last_axis(*shares, 4)) return std::nullopt;
    found.value = input_of(*mixed, 1);
    const Name scores = input_of(*shares, 0);
    if (is(graph_.node_of(scores), "MatMul")) return with_product(found, scores, {});
    const NodeText* sum = inner(scores, "Add", found.inner);
    if (sum == nullptr) return std::nullopt;
    for (const std::size_t place : {0U, 1U}) {
      auto result = with_product(found, input_of(*sum, place), input_of(*sum, 1 - place));
      if (result) return result;
    }
    return std::nullopt;
  }

  /// The norm that ends with a node.
  [[nodiscard]] std::optional<FoundNorm> norm_of(const NodeText& end) const {
    if (is(&end, "Mul")) return norm_of_operators(end);
    const bool is_simplified = is(&end, "SimplifiedLayerNormalization");
    if (!is_simplified && !is(&end, "LayerNormalization")) return std::nullopt;
    const Sizes* sizes = graph_.sizes_of(input_of(end, 0));
    if (sizes == nullptr || end.outputs.size() != 1 || !is_on_last_axis(end, std::ssize(*sizes))) return std::nullopt;
    constexpr float default_epsilon = 1e-5F;
    return FoundNorm{.input = input_of(end, 0),
                     .weights = {end.inputs.begin() + 1, end.inputs.end()},
                     .epsilon = float_attribute(end, "epsilon", default_epsilon),
                     .is_simplified = is_simplified,
                     .inner = {}};
  }

  /// The Add before a norm that can be one node with it.
  [[nodiscard]] std::optional<std::size_t> sum_of(const FoundNorm& norm) const {
    const auto maker = graph_.maker_of(norm.input);
    if (!maker || !is(&graph_.nodes()[*maker], "Add")) return std::nullopt;
    const NodeText& sum = graph_.nodes()[*maker];
    const Sizes *one = graph_.sizes_of(input_of(sum, 0)), *other = graph_.sizes_of(input_of(sum, 1));
    if (one == nullptr || other == nullptr || *one != *other || one->size() != 3) return std::nullopt;
    for (const Name weight : norm.weights) {
      const Sizes* sizes = graph_.sizes_of(weight);
      if (sizes == nullptr || *sizes != Sizes{one->back()} || !is_before(weight, *maker)) return std::nullopt;
    }
    return maker;
  }

 private:
  // The node of that type that makes the value, which has no other use.
  const NodeText* inner(Name value, Name type, std::vector<std::size_t>& found) const {
    const auto maker = graph_.maker_of(value);
    if (!maker || !is(&graph_.nodes()[*maker], type) || graph_.uses_of(value) != 1) return nullptr;
    found.push_back(*maker);
    return &graph_.nodes()[*maker];
  }

  // Mul(Div(x, Sqrt(Add(ReduceMean(Mul(x, x)), epsilon))), weight), in this order.
  [[nodiscard]] std::optional<FoundNorm> norm_of_operators(const NodeText& end) const {
    FoundNorm found{.input = {}, .weights = {input_of(end, 1)}, .epsilon = 0, .is_simplified = true, .inner = {}};
    const NodeText* quotient = inner(input_of(end, 0), "Div", found.inner);
    const NodeText* root = quotient == nullptr ? nullptr : inner(input_of(*quotient, 1), "Sqrt", found.inner);
    const NodeText* sum = root == nullptr ? nullptr : inner(input_of(*root, 0), "Add", found.inner);
    const NodeText* mean = sum == nullptr ? nullptr : inner(input_of(*sum, 0), "ReduceMean", found.inner);
    const NodeText* square = mean == nullptr ? nullptr : inner(input_of(*mean, 0), "Mul", found.inner);
    if (square == nullptr) return std::nullopt;
    found.input = input_of(*quotient, 0);
    if (input_of(*square, 0) != found.input || input_of(*square, 1) != found.input) return std::nullopt;
    const Sizes *sizes = graph_.sizes_of(found.input), *weight = graph_.sizes_of(found.weights.front());
    const Sizes* axes = graph_.integers_of(input_of(*mean, 1));
    const float* epsilon = graph_.scalar_of(input_of(*sum, 1));
    const bool is_whole = sizes != nullptr && !sizes->empty() && weight != nullptr && *weight == Sizes{sizes->back()};
    if (!is_whole || axes == nullptr || *axes != Sizes{-1} || epsilon == nullptr) return std::nullopt;
    if (integer_attribute(*mean, "keepdims", 1) != 1) return std::nullopt;
    found.epsilon = *epsilon;
    return found;
  }

  static bool is_on_last_axis(const NodeText& node, std::int64_t rank) {
    const std::int64_t axis = integer_attribute(node, "axis", -1);
    return axis == -1 || axis == rank - 1;
  }

  [[nodiscard]] bool is_before(Name value, std::size_t node) const {
    const auto maker = graph_.maker_of(value);
    return !maker || *maker < node;
  }

  [[nodiscard]] std::optional<FoundAttention> with_product(FoundAttention found, Name scores, Name bias) const {
    const NodeText* product = inner(scores, "MatMul", found.inner);
    if (product == nullptr) return std::nullopt;
    found.query = input_of(*product, 0);
    found.turned_key = input_of(*product, 1);
    found.inputs.bias = bias;
    if (!bias.empty()) {
      const Sizes* sizes = graph_.sizes_of(bias);
      if (sizes != nullptr && sizes->size() > 4) return std::nullopt;
    }
    return set_inputs(found) ? std::optional(found) : std::nullopt;
  }

  // [batch, sequence, heads * head size] before Reshape and Transpose; empty: there is none.
  [[nodiscard]] Name packed(Name heads, const Sizes& order, std::int64_t width) const {
    const NodeText* turned = graph_.node_of(heads);
    if (!has_order(turned, order)) return {};
    const NodeText* split = graph_.node_of(input_of(*turned, 0));
    if (!is(split, "Reshape")) return {};
    const Sizes *whole = graph_.sizes_of(input_of(*split, 0)), *parts = graph_.sizes_of(split->outputs.front());
    const bool is_split = whole != nullptr && parts != nullptr && whole->size() == 3 && parts->size() == 4 &&
                          std::equal(whole->begin(), whole->begin() + 2, parts->begin()) && whole->back() == width;
    return is_split ? input_of(*split, 0) : Name();
  }

  bool set_inputs(FoundAttention& found) const {
    AttentionInputs& inputs = found.inputs;
    const Sizes *query = graph_.sizes_of(found.query), *key = graph_.sizes_of(found.turned_key),
                *value = graph_.sizes_of(found.value);
    if (query == nullptr || key == nullptr || value == nullptr) return false;
    if (query->size() != 4 || key->size() != 4 || value->size() != 4) return false;
    const std::int64_t batch = (*query)[0], heads = (*query)[1], size = (*query)[3];
    const bool has_heads = heads > 0 && size > 0 && inputs.width % heads == 0 && inputs.width / heads == size;
    if (!has_heads || (*key)[0] != batch || (*value)[0] != batch) return false;
    if ((*key)[1] != heads || (*value)[1] != heads || (*key)[2] != size || (*value)[3] != size) return false;
    inputs.heads = heads;
    inputs.lengths = {(*query)[2], (*key)[3]};
    const Name packed_query = packed(found.query, heads_first, inputs.width);
    inputs.is_query_packed = !packed_query.empty();
    inputs.query = inputs.is_query_packed ? packed_query : found.query;
    const NodeText* turned = graph_.node_of(found.turned_key);
    if (has_order(turned, last_two_swapped)) {
      inputs.key = input_of(*turned, 0);
      inputs.value = found.value;
      return true;
    }
    inputs.are_keys_packed = true;
    inputs.key = packed(found.turned_key, keys_transposed, inputs.width);
    inputs.value = packed(found.value, heads_first, inputs.width);
    return !inputs.key.empty() && !inputs.value.empty();
  }

  const GraphText& graph_;
};

class Fusion {
 public:
  explicit Fusion(std::string_view graph) : text_(graph), graph_(graph), writer_({}, made_prefix) {}

  /// What was added, without the content.
  FusedModel run(const FusedParts& parts) {
    if (graph_.has_names_with(made_prefix)) return {};
    if (parts.attention) fuse_attention();
    if (parts.norms) fuse_norms();
    return std::move(result_);
  }

  /// The fields of the graph with what was fused.
  [[nodiscard]] std::string fields() const {
    std::string fields;
    fields.reserve(text_.size() + writer_.fields().size());
    std::size_t node = 0;
    for (Message graph(text_); graph.next();) {
      if (graph.field() != schema::graph::node) {
        fields += graph.raw();
        continue;
      }
      const auto replaced = replaced_.find(node);
      if (replaced != replaced_.end()) {
        fields += replaced->second;
      } else if (!removed_.contains(node)) {
        fields += graph.raw();
      }
      ++node;
    }
    return fields;
  }

 private:
  void fuse_attention() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (const auto found = Matcher(graph_).attention_of(graph_.nodes()[i])) write_attention(*found, i);
    }
  }

  void fuse_norms() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      if (const auto found = Matcher(graph_).norm_of(graph_.nodes()[i])) write_norm(*found, i);
    }
  }

  // `begin`: of what was written for the operator, with its constants.
  void put(std::size_t place, std::size_t begin, const std::string& type) {
    replaced_.emplace(place, writer_.fields().substr(begin));
    ++result_.operators[type];
  }

  void write_attention(const FoundAttention& found, std::size_t end) {
    const AttentionInputs& inputs = found.inputs;
    const std::size_t begin = writer_.fields().size();
    std::vector<std::string> values{query_of(inputs), std::string(inputs.key), std::string(inputs.value)};
    if (!inputs.bias.empty()) values.insert(values.end(), {"", "", bias_of(inputs)});
    const std::string type = "MultiHeadAttention";
    writer_.contributed_value(type, values, {{"num_heads", inputs.heads}, {"scale", 1.0F}},
                              graph_.nodes()[end].outputs.front());
    put(end, begin, type);
    result_.attentions.insert({.heads = inputs.heads,
                               .head_size = inputs.width / inputs.heads,
                               .bias_heads = bias_heads_of(inputs),
                               .are_keys_packed = inputs.are_keys_packed});
    removed_.insert(found.inner.begin(), found.inner.end());
    for (const Name value : {inputs.query, inputs.key, inputs.value}) graph_.add_use(value);
    for (const Name value : {found.query, found.turned_key, found.value}) drop(value);
  }

  [[nodiscard]] std::int64_t bias_heads_of(const AttentionInputs& inputs) const {
    if (inputs.bias.empty()) return 0;
    const Sizes* sizes = graph_.sizes_of(inputs.bias);
    const bool has_heads = sizes != nullptr && sizes->size() >= 3 && (*sizes)[sizes->size() - 3] == inputs.heads;
    return has_heads ? inputs.heads : 1;
  }

  // Transposes and splits that nothing uses any more.
  void drop(Name value) {
    std::vector<Name> dropped{value};
    while (!dropped.empty()) {
      const Name last = dropped.back();
      dropped.pop_back();
      if (!graph_.drop_use(last)) continue;
      const auto maker = graph_.maker_of(last);
      if (!maker) continue;
      const NodeText& node = graph_.nodes()[*maker];
      if (!is(&node, "Transpose") && !is(&node, "Reshape")) continue;
      removed_.insert(*maker);
      dropped.insert(dropped.end(), node.inputs.begin(), node.inputs.end());
    }
  }

  std::string query_of(const AttentionInputs& inputs) {
    if (inputs.is_query_packed) return std::string(inputs.query);
    const std::string turned = writer_.node("Transpose", {std::string(inputs.query)}, {{"perm", heads_first}});
    return writer_.node("Reshape", {turned, writer_.integers(std::array<std::int64_t, 3>{0, 0, inputs.width})});
  }

  std::string length_of(Name value, std::int64_t axis) {
    return writer_.node("Shape", {std::string(value)}, {{"start", axis}, {"end", axis + 1}});
  }

  // [batch or 1, heads or 1, query length, key length]
  std::string bias_of(const AttentionInputs& inputs) {
    const auto [found, is_new] = biases_.try_emplace({inputs.bias, inputs.lengths});
    if (!is_new) return found->second;
    const std::string ones = writer_.integers(std::array<std::int64_t, 2>{1, 1});
    const std::string of_query = length_of(inputs.query, inputs.is_query_packed ? 1 : 2);
    const std::string of_key = length_of(inputs.key, inputs.are_keys_packed ? 1 : 2);
    const std::string sizes = writer_.node("Concat", {ones, of_query, of_key}, {{"axis", std::int64_t{0}}});
    found->second = writer_.node("Expand", {std::string(inputs.bias), sizes});
    return found->second;
  }

  void write_norm(const FoundNorm& norm, std::size_t end) {
    const Name output = graph_.nodes()[end].outputs.front();
    const std::string type = norm.is_simplified ? "SimplifiedLayerNormalization" : "LayerNormalization";
    const std::size_t begin = writer_.fields().size();
    const auto sum = Matcher(graph_).sum_of(norm);
    if (sum && !replaced_.contains(*sum)) {
      // In the place of the sum: nodes before the norm may use it.
      writer_.contributed_node("Skip" + type, inputs_of(norm, graph_.nodes()[*sum]), {{"epsilon", norm.epsilon}},
                               outputs_of(norm, output));
      put(*sum, begin, "Skip" + type);
      add_form(norm, true);
      removed_.insert(end);
    } else if (!norm.inner.empty()) {
      writer_.node(type, {std::string(norm.input), std::string(norm.weights.front())},
                   {{"axis", std::int64_t{-1}}, {"epsilon", norm.epsilon}}, output);
      put(end, begin, type);
      add_form(norm, false);
    }
    removed_.insert(norm.inner.begin(), norm.inner.end());
  }

  void add_form(const FoundNorm& norm, bool has_sum) {
    const Sizes* sizes = graph_.sizes_of(norm.weights.front());
    result_.norms.insert({.size = sizes->back(),
                          .is_simplified = norm.is_simplified,
                          .has_bias = norm.weights.size() > 1,
                          .has_sum = has_sum});
  }

  static std::vector<std::string> inputs_of(const FoundNorm& norm, const NodeText& sum) {
    std::vector<std::string> inputs{std::string(input_of(sum, 0)), std::string(input_of(sum, 1))};
    inputs.insert(inputs.end(), norm.weights.begin(), norm.weights.end());
    return inputs;
  }

  [[nodiscard]] std::vector<std::string> outputs_of(const FoundNorm& norm, Name output) const {
    // The operators of a norm read it three times.
    const std::size_t own_uses = norm.inner.empty() ? 1 : 3;
    if (graph_.uses_of(norm.input) == own_uses) return {std::string(output)};
    return {std::string(output), "", "", std::string(norm.input)};
  }

  std::string_view text_;
  GraphText graph_;
  GraphWriter writer_;
  std::map<std::size_t, std::string> replaced_;  // by the node whose place it takes
  std::unordered_set<std::size_t> removed_;
  FusedModel result_;
  std::map<std::pair<Name, std::pair<std::int64_t, std::int64_t>>, std::string> biases_;
};

struct Opsets {
  std::int64_t standard = 0;
  bool has_contributed = false;
};

Opsets opsets_of(std::string_view content) {
  Opsets opsets;
  for (Message model(content); model.next();) {
    if (model.field() != schema::model::opset_import) continue;
    Name domain;
    std::int64_t version = 0;
    for (Message entry = model.message(); entry.next();) {
      if (entry.field() == schema::opset::domain) domain = entry.bytes();
      if (entry.field() == schema::opset::version) version = entry.integer();
    }
    if (domain.empty() || domain == "ai.onnx") opsets.standard = std::max(opsets.standard, version);
    opsets.has_contributed |= domain == contributed_domain;
  }
  return opsets;
}

void append_opset(std::string& model, Name domain, std::int64_t version) {
  protozero::pbf_writer writer(model);
  protozero::pbf_writer import(writer, schema::model::opset_import);
  import.add_string(schema::opset::domain, std::string(domain));
  import.add_int64(schema::opset::version, version);
}

}  // namespace

std::optional<FusedModel> with_fused_attention(std::string_view content, const FusedParts& wanted) {
  if (content.size() > max_rewritten_bytes) return std::nullopt;
  const Opsets opsets = opsets_of(content);
  if (opsets.standard < least_opset) return std::nullopt;
  ModelParts parts = split_model(content);
  Fusion fusion(parts.graph);
  FusedModel result = fusion.run(wanted);
  if (result.operators.empty()) return std::nullopt;
  result.content = std::move(parts.head);
  if (!opsets.has_contributed) append_opset(result.content, contributed_domain, 1);
  const std::string fields = fusion.fields();
  append_graph_key(result.content, fields);
  result.content += fields;
  return result;
}

}  // namespace gpux::onnx
