#include "onnx/fused_attention.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/model_inspector.h"
#include "onnx/graph_writer.h"
#include "onnx/model_file.h"
#include "onnx/model_writer.h"
#include "onnx/rewriting.h"
#include "onnx/value_sizes.h"

namespace gpux::onnx {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

using Operators = std::map<std::string, std::size_t>;

/// An attention of 2 heads of 4 elements, and what may differ in it.
struct Attention {
  std::int64_t opset = 17;
  Sizes query_heads{0, 0, 2, 4}, key_heads{0, 0, 2, 4}, value_heads{0, 0, 2, 4}, flat{0, 0, 8};
  Sizes mixed_order{0, 2, 1, 3}, query_order{0, 2, 1, 3}, key_order{0, 2, 3, 1};
  std::int64_t softmax_axis = -1, allow_zero = 0;
  std::vector<WrittenSize> key_sizes{"batch", "sequence", std::int64_t{8}};
  std::vector<WrittenSize> bias_sizes{};  // none: no bias
  bool is_bias_first = false;
  bool turns_keys_twice = false;  // [batch, heads, sequence, head size] before the last Transpose
  bool turns_values = true;
  const char* used_again = "";  // a value that another node reads
  const char* given = "";       // a value that is an output of the graph

  [[nodiscard]] std::string model() const {
    GraphWriter graph("attention");
    const std::vector<WrittenSize> sizes{"batch", "sequence", std::int64_t{8}};
    graph.input("q", ElementType::float32, sizes);
    graph.input("k", ElementType::float32, key_sizes);
    graph.input("v", ElementType::float32, sizes);
    const auto turned = [&](const std::string& value, const Sizes& order, const char* name) {
      return graph.node("Transpose", {value}, {{"perm", order}}, name);
    };
    const auto split = [&](const std::string& value, const Sizes& heads) {
      return graph.node("Reshape", {value, graph.integers(heads)}, {}, "split." + value);
    };
    turned(split("q", query_heads), query_order, "queries");
    if (turns_keys_twice) {
      turned(turned(split("k", key_heads), {0, 2, 1, 3}, "keys"), {0, 1, 3, 2}, "turned keys");
    } else {
      turned(split("k", key_heads), key_order, "turned keys");
    }
    std::string values = split("v", value_heads);
    if (turns_values) values = turned(values, {0, 2, 1, 3}, "values");
    std::string scores = graph.node("MatMul", {"queries", "turned keys"}, {}, "product");
    if (!bias_sizes.empty()) {
      graph.input("bias", ElementType::float32, bias_sizes);
      std::vector<std::string> added{"product", "bias"};
      if (is_bias_first) std::swap(added[0], added[1]);
      scores = graph.node("Add", added, {}, "scores");
    }
    graph.node("Softmax", {scores}, {{"axis", softmax_axis}}, "shares");
    turned(graph.node("MatMul", {"shares", values}, {}, "mixed"), mixed_order, "turned");
    graph.node("Reshape", {"turned", graph.integers(flat)}, {{"allowzero", allow_zero}}, "result");
    graph.output("result", ElementType::float32, sizes);
    if (*used_again != '\0') graph.output(graph.node("Neg", {used_again}), ElementType::float32, {});
    if (*given != '\0') graph.output(given, ElementType::float32, {});
    const test::TemporaryFolder folder;
    graph.write(folder.path() / "model.onnx", opset, 8);
    return read_file(folder.path() / "model.onnx");
  }
};

Operators operators_of(const std::string& content) {
  const auto fused = with_fused_attention(content);
  return fused ? fused->operators : Operators();
}

// The operators of the whole model, by name.
std::map<std::string, std::uint64_t> all_operators(const std::string& content) {
  const auto& operators = inspect(content, "model.onnx").operators;
  return {operators.begin(), operators.end()};
}

TEST(FusedAttention, TakesTheNodesOfAnAttention) {
  const auto fused = with_fused_attention(Attention{}.model());
  ASSERT_TRUE(fused.has_value());
  EXPECT_THAT(fused->operators, ElementsAre(Pair("MultiHeadAttention", 1U)));
  EXPECT_THAT(fused->attentions, ElementsAre(AttentionForm{2, 4, 0, true}));
  EXPECT_THAT(all_operators(fused->content), ElementsAre(Pair("com.microsoft::MultiHeadAttention", 1U)));
  // A second time there is nothing left.
  EXPECT_FALSE(with_fused_attention(fused->content).has_value());
}

TEST(FusedAttention, ExpandsTheBias) {
  const WrittenSize one = std::int64_t{1};
  const auto fused = with_fused_attention(Attention{.bias_sizes = {"batch", one, one, "sequence"}}.model());
  ASSERT_TRUE(fused.has_value());
  EXPECT_THAT(fused->attentions, ElementsAre(AttentionForm{2, 4, 1, true}));
  EXPECT_THAT(all_operators(fused->content),
              UnorderedElementsAre(Pair("com.microsoft::MultiHeadAttention", 1U), Pair("Shape", 2U), Pair("Concat", 1U),
                                   Pair("Expand", 1U)));
  const Attention of_heads{.bias_sizes = {std::int64_t{2}, "sequence", "sequence"}, .is_bias_first = true};
  const auto other = with_fused_attention(of_heads.model());
  ASSERT_TRUE(other.has_value());
  EXPECT_THAT(other->attentions, ElementsAre(AttentionForm{2, 4, 2, true}));
}

TEST(FusedAttention, LeavesKeysThatAreNotOfOneProjection) {
  const auto fused = with_fused_attention(Attention{.turns_keys_twice = true}.model());
  ASSERT_TRUE(fused.has_value());
  EXPECT_THAT(fused->attentions, ElementsAre(AttentionForm{2, 4, 0, false}));
  // Two of keys and two of values are left, none of the query.
  EXPECT_THAT(all_operators(fused->content), UnorderedElementsAre(Pair("com.microsoft::MultiHeadAttention", 1U),
                                                                  Pair("Transpose", 2U), Pair("Reshape", 2U)));
}

TEST(FusedAttention, LeavesOthersAlone) {
  const std::vector<WrittenSize> other_batch{"texts", "sequence", std::int64_t{8}};

  struct Case {
    const char* what;
    Attention attention;
    bool is_fused;
  };

  const std::vector<Case> cases{
      {"a softmax of the last axis by its number", {.softmax_axis = 3}, true},
      {"a softmax of another axis", {.softmax_axis = 2}, false},
      {"an old opset", {.opset = 16}, false},
      {"heads in another order", {.mixed_order = {0, 1, 2, 3}}, false},
      {"another result", {.flat = {0, -1, 8}}, false},
      {"a result of other sizes", {.flat = {0, 0, 16}}, false},
      {"zeros that are sizes", {.allow_zero = 1}, false},
      {"fewer heads of keys", {.key_heads = {0, 0, 1, 8}}, false},
      {"fewer heads of values", {.value_heads = {0, 0, 1, 8}}, false},
      {"heads as many as there are", {.query_heads = {0, 0, -1, 4}}, true},
      {"keys of an unknown size", {.key_sizes = {"batch", "sequence", "size"}}, false},
      {"keys of another batch", {.key_sizes = other_batch}, false},
      {"keys in another order", {.key_order = {0, 2, 1, 3}}, false},
      {"values that are not turned", {.turns_values = false}, false},
      {"a bias of too many sizes",
       {.bias_sizes = {"batch", std::int64_t{1}, std::int64_t{1}, "sequence", "sequence"}},
       false},
      {"the scores are used", {.used_again = "product"}, false},
      {"the shares are used", {.used_again = "shares"}, false},
      {"the mixed values are used", {.used_again = "mixed"}, false},
      {"the turned values are used", {.used_again = "turned"}, false},
      {"the shares are an output", {.given = "shares"}, false},
      {"the queries are used", {.used_again = "queries"}, true},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(operators_of(one.attention.model()).contains("MultiHeadAttention"), one.is_fused) << one.what;
  }
}

TEST(FusedAttention, KeepsWhatOthersUse) {
  const auto fused = with_fused_attention(Attention{.used_again = "queries"}.model());
  ASSERT_TRUE(fused.has_value());
  EXPECT_THAT(all_operators(fused->content),
              UnorderedElementsAre(Pair("com.microsoft::MultiHeadAttention", 1U), Pair("Transpose", 1U),
                                   Pair("Reshape", 1U), Pair("Neg", 1U)));
}

/// A norm of a sum, and what may differ in it.
struct Norm {
  std::vector<WrittenSize> first{"batch", "sequence", std::int64_t{8}}, second{"batch", "sequence", std::int64_t{8}};
  std::int64_t weights = 8, axis = -1;
  std::string type = "LayerNormalization";
  bool has_bias = true;
  bool is_sum_used = false;
  bool has_late_weights = false;  // computed behind the sum

  [[nodiscard]] std::string model() const {
    GraphWriter graph("norm");
    graph.input("one", ElementType::float32, first);
    graph.input("other", ElementType::float32, second);
    graph.node("Add", {"one", "other"}, {}, "sum");
    std::string weight = graph.floats("weight", std::vector<float>(static_cast<std::size_t>(weights), 1), {weights});
    if (has_late_weights) weight = graph.node("Neg", {weight});
    std::vector<std::string> inputs{"sum", weight};
    if (has_bias) inputs.push_back(weight);
    const Attributes attributes{{"axis", axis}, {"epsilon", 0.5F}};
    if (type == "Operators") {
      const std::string square = graph.node("Mul", {"sum", "sum"});
      const std::string mean =
          graph.node("ReduceMean", {square, graph.integers(Sizes{axis})}, {{"keepdims", std::int64_t{1}}});
      const std::string root = graph.node("Sqrt", {graph.node("Add", {mean, graph.scalar(0.5F)})});
      graph.node("Mul", {graph.node("Div", {"sum", root}), weight}, {}, "result");
    } else {
      graph.node(type, inputs, attributes, "result");
    }
    graph.output("result", ElementType::float32, first);
    if (is_sum_used) graph.output("sum", ElementType::float32, first);
    const test::TemporaryFolder folder;
    graph.write(folder.path() / "model.onnx", 18, 8);
    return read_file(folder.path() / "model.onnx");
  }
};

TEST(FusedNorm, TakesTheSumBefore) {
  struct Case {
    const char* what;
    Norm norm;
    Operators operators;
  };

  const Operators none, skip{{"SkipLayerNormalization", 1}}, simplified{{"SkipSimplifiedLayerNormalization", 1}};
  const WrittenSize eight = std::int64_t{8};
  const std::vector<Case> cases{
      {"a sum", {}, skip},
      {"a sum without a bias", {.has_bias = false}, skip},
      {"a sum that is used, too", {.is_sum_used = true}, skip},
      {"the last axis by its number", {.axis = 2}, skip},
      {"a simplified norm", {.type = "SimplifiedLayerNormalization", .has_bias = false}, simplified},
      {"the operators of a norm", {.type = "Operators"}, simplified},
      {"the operators of a norm of a sum that is used", {.type = "Operators", .is_sum_used = true}, simplified},
      {"another axis", {.axis = 1}, none},
      {"the operators over another axis", {.axis = 1, .type = "Operators"}, none},
      {"a sum with one row for all", {.second = {eight}}, none},
      {"a sum of two batches", {.second = {"texts", "sequence", eight}}, none},
      {"values of four axes",
       {.first = {"batch", "rows", "columns", eight}, .second = {"batch", "rows", "columns", eight}},
       none},
      {"weights of another size", {.weights = 1}, none},
      {"weights that are computed behind the sum", {.has_late_weights = true}, none},
  };
  for (const Case& one : cases) EXPECT_EQ(operators_of(one.norm.model()), one.operators) << one.what;
}

TEST(FusedNorm, OfOperatorsIsOneWithoutASum) {
  const Norm norm{.second = {std::int64_t{8}}, .type = "Operators"};
  EXPECT_THAT(operators_of(norm.model()), ElementsAre(Pair("SimplifiedLayerNormalization", 1U)));
}

TEST(FusedNorm, GivesTheSumWhereItIsUsed) {
  for (const char* type : {"LayerNormalization", "Operators"}) {
    for (const bool is_used : {false, true}) {
      const auto fused = with_fused_attention(Norm{.type = type, .is_sum_used = is_used}.model());
      ASSERT_TRUE(fused.has_value());
      EXPECT_EQ(fused->norms.begin()->size, 8);
      EXPECT_EQ(all_operators(fused->content).size(), 1U);
      EXPECT_EQ(fused->content.find("\x12\x03sum") != std::string::npos, is_used) << type;  // an output of a node
    }
  }
}

TEST(FusedAttention, FusesTheKindsThatAreAskedFor) {
  const std::string norm = Norm{}.model(), attention = Attention{}.model();
  EXPECT_FALSE(with_fused_attention(norm, {.attention = true, .norms = false}).has_value());
  EXPECT_TRUE(with_fused_attention(norm, {.attention = false, .norms = true}).has_value());
  EXPECT_FALSE(with_fused_attention(attention, {.attention = false, .norms = true}).has_value());
}

// What a subgraph reads is used.
TEST(FusedAttention, LeavesWhatSubgraphsRead) {
  const auto with_subgraph = [](std::string_view reads) {
    using namespace onnx_test;
    const std::string inner = MessageWriter()
                                  .bytes(schema::graph::node, node("Neg", {reads}, {"y"}))
                                  .bytes(schema::graph::output, value_info("y", tensor_type(ElementType::float32, {})))
                                  .str();
    const std::string branch = node("If", {"condition"}, {"z"}, {graph_attribute("then_branch", inner)});
    const std::string model = Attention{}.model();
    ModelParts parts = split_model(model);
    const std::string graph = std::string(parts.graph) + MessageWriter().bytes(schema::graph::node, branch).str();
    append_graph_key(parts.head, graph);
    return parts.head + graph;
  };
  EXPECT_THAT(operators_of(with_subgraph("v")), ElementsAre(Pair("MultiHeadAttention", 1U)));
  EXPECT_THAT(operators_of(with_subgraph("shares")), testing::IsEmpty());
}

TEST(FusionExample, HasTheNodesOfEachForm) {
  const std::set<AttentionForm> attentions{{2, 4, 0, true}, {2, 4, 1, false}, {4, 8, 4, true}};
  const std::set<NormForm> norms{{8, false, true, true}, {8, false, false, true}, {16, true, false, true}};
  for (const bool is_float16 : {false, true}) {
    const auto fused = with_fused_attention(fusion_example(attentions, norms, is_float16));
    ASSERT_TRUE(fused.has_value());
    EXPECT_EQ(fused->attentions, attentions);
    EXPECT_EQ(fused->norms, norms);
    EXPECT_FALSE(all_operators(fused->content).contains("Softmax"));
    EXPECT_FALSE(all_operators(fused->content).contains("LayerNormalization"));
  }
}

}  // namespace
}  // namespace gpux::onnx
