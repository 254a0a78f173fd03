#include "onnx/quantize.h"

#include <gpux/error.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/recorded_disk.h"
#include "base/temporary_folder.h"
#include "onnx/message.h"
#include "onnx/model_file.h"
#include "onnx/model_writer.h"
#include "onnx/tensor_header.h"

namespace gpux::onnx {
namespace {

using onnx_test::MessageWriter;
using onnx_test::ModelWriter;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr const char* file_name = "model.onnx";

std::string content_of(const QuantizedModel& model) {
  return model.head + model.graph;
}

QuantizedModel quantized(const ModelWriter& model, const QuantizeOptions& options = {}) {
  return quantize(model.bytes(), file_name, options);
}

std::vector<std::string> names_of(const std::vector<QuantizedNode>& nodes) {
  std::vector<std::string> names;
  for (const QuantizedNode& node : nodes) names.push_back(node.name);
  return names;
}

std::map<std::string, std::string> reasons_of(const QuantizedModel& model) {
  std::map<std::string, std::string> reasons;
  for (const QuantizedNode& node : model.left_alone) reasons[node.name] = node.reason;
  return reasons;
}

/// What stands in the main graph of the result.
struct Graph {
  std::map<std::string, TensorHeader> initializers;
  std::vector<std::pair<std::string, std::vector<std::string>>> nodes;  // operator, inputs
  std::vector<std::string> outputs_of_nodes;
  std::vector<std::string> inputs;
};

Graph graph_of(const QuantizedModel& model) {
  Graph graph;
  Message message(model.graph);
  while (message.next()) {
    if (message.field() == schema::graph::initializer) {
      const TensorHeader header = read_tensor_header(message.message());
      EXPECT_TRUE(graph.initializers.emplace(header.name, header).second) << header.name;
    } else if (message.field() == schema::graph::input) {
      Message input = message.message();
      while (input.next()) {
        if (input.field() == schema::value_info::name) graph.inputs.emplace_back(input.bytes());
      }
    } else if (message.field() == schema::graph::node) {
      Message node = message.message();
      auto& [type, inputs] = graph.nodes.emplace_back();
      while (node.next()) {
        if (node.field() == schema::node::op_type) type = node.bytes();
        if (node.field() == schema::node::input) inputs.emplace_back(node.bytes());
        if (node.field() == schema::node::output) graph.outputs_of_nodes.emplace_back(node.bytes());
      }
    }
  }
  return graph;
}

std::vector<std::string> operators_of(const Graph& graph) {
  std::vector<std::string> operators;
  for (const auto& [type, inputs] : graph.nodes) operators.push_back(type);
  return operators;
}

// Every value is made, or there from the beginning, before it is used.
void expect_ordered(const QuantizedModel& model) {
  const Graph graph = graph_of(model);
  std::vector<std::string> there = graph.inputs;
  for (const auto& [name, header] : graph.initializers) there.push_back(name);
  Message message(model.graph);
  while (message.next()) {
    if (message.field() != schema::graph::node) continue;
    Message node = message.message();
    while (node.next()) {
      if (node.field() == schema::node::input && !node.bytes().empty()) {
        EXPECT_THAT(there, Contains(std::string(node.bytes())));
      }
      if (node.field() == schema::node::output) {
        EXPECT_THAT(there, Not(Contains(std::string(node.bytes()))));
        there.emplace_back(node.bytes());
      }
    }
  }
}

std::string float_attribute(std::string_view name, float value) {
  std::string attribute = MessageWriter().bytes(schema::attribute::name, name).str();
  protozero::pbf_writer(attribute).add_float(schema::attribute::f, value);
  return attribute + MessageWriter().number(schema::attribute::type, 1).str();
}

std::string integer_attribute(std::string_view name, std::int64_t value) {
  return MessageWriter()
      .bytes(schema::attribute::name, name)
      .number(schema::attribute::i, value)
      .number(schema::attribute::type, 2)
      .str();
}

std::vector<float> ramp(std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i) - static_cast<float>(count) / 3;
  return numbers;
}

/// x [n, 4] to y; weights are for the case to add.
ModelWriter model_of_four(std::int64_t opset = 21, std::int64_t ir_version = 10) {
  ModelWriter model(opset, ir_version);
  model.add_input("x", ElementType::float32, {"n", 4}).add_output("y", ElementType::float32, {"n", "m"});
  return model;
}

ModelWriter one_matmul(std::int64_t opset = 21, std::int64_t ir_version = 10) {
  ModelWriter model = model_of_four(opset, ir_version);
  model.add_node("MatMul", {"x", "w"}, {"y"}).add_initializer("w", {4, 3}, ramp(12));
  return model;
}

TEST(Quantize, MakesOfAMatMulWhatOnnxRuntimeFuses) {
  const QuantizedModel made = quantized(one_matmul());
  EXPECT_THAT(names_of(made.quantized), ElementsAre("y"));
  EXPECT_THAT(made.left_alone, IsEmpty());
  const Graph graph = graph_of(made);
  EXPECT_THAT(operators_of(graph), ElementsAre("DynamicQuantizeLinear", "MatMulInteger", "Cast", "Mul", "Mul"));
  EXPECT_EQ(graph.outputs_of_nodes.back(), "y");
  EXPECT_THAT(graph.initializers, UnorderedElementsAre(Key("w_quantized"), Key("w_scale")));
  EXPECT_EQ(describe(graph.initializers.at("w_quantized")), "int8[4, 3]");
  EXPECT_EQ(describe(graph.initializers.at("w_scale")), "float32[3]");
  EXPECT_EQ(made.weight_bytes_before, 48U);
  EXPECT_EQ(made.weight_bytes_after, 12U + 12U);
  expect_ordered(made);
  const ModelInfo info = inspect(content_of(made), file_name);
  EXPECT_EQ(info.signature.inputs.size(), 1U);
  EXPECT_EQ(info.signature.outputs.front().name, "y");
}

TEST(Quantize, GivesGemmItsBiasAndTurnsItsWeights) {
  ModelWriter model = model_of_four();
  model
      .add_node("Gemm", {"x", "w", "b"}, {"y"},
                {integer_attribute("transB", 1), float_attribute("alpha", 0.5F), float_attribute("beta", 1)})
      .add_initializer("w", {3, 4}, ramp(12))
      .add_initializer("b", {3}, ramp(3));
  const QuantizedModel made = quantized(model);
  const Graph graph = graph_of(made);
  EXPECT_THAT(operators_of(graph), ElementsAre("DynamicQuantizeLinear", "MatMulInteger", "Cast", "Mul", "Mul", "Add"));
  EXPECT_EQ(graph.nodes.back().second.back(), "b");
  EXPECT_EQ(describe(graph.initializers.at("w_quantized")), "int8[4, 3]");
  // The largest of the first row is 4, of the last 7; alpha is in the scales.
  std::vector<float> scales(3);
  std::memcpy(scales.data(), graph.initializers.at("w_scale").raw_data.value().data(), 12);
  EXPECT_FLOAT_EQ(scales[0], 0.5F * 4 / 127);
  EXPECT_FLOAT_EQ(scales[2], 0.5F * 7 / 127);
  expect_ordered(made);
}

TEST(Quantize, GathersBytesAndTheScalesOfTheirRows) {
  ModelWriter model;
  model.add_input("ids", ElementType::int64, {"n"}).add_output("y", ElementType::float32, {"n", 2});
  model.add_node("Gather", {"table", "ids"}, {"y"}).add_initializer("table", {16, 2}, ramp(32));
  const QuantizedModel made = quantized(model);
  const Graph graph = graph_of(made);
  EXPECT_THAT(operators_of(graph), ElementsAre("Gather", "Gather", "Cast", "Mul"));
  EXPECT_EQ(describe(graph.initializers.at("table_quantized")), "int8[16, 2]");
  EXPECT_EQ(describe(graph.initializers.at("table_scale")), "float32[16, 1]");
  EXPECT_FALSE(graph.initializers.contains("table"));
  expect_ordered(made);
}

TEST(Quantize, SharesWhatNodesShare) {
  ModelWriter model = model_of_four();
  model.add_node("MatMul", {"x", "w"}, {"a"})
      .add_node("MatMul", {"x", "w"}, {"b"})
      .add_node("Add", {"a", "b"}, {"y"})
      .add_initializer("w", {4, 3}, ramp(12));
  const Graph both = graph_of(quantized(model));
  EXPECT_EQ(std::ranges::count(operators_of(both), "DynamicQuantizeLinear"), 1);
  EXPECT_THAT(both.initializers, UnorderedElementsAre(Key("w_quantized"), Key("w_scale")));

  // One of them keeps the weights, so that they stay.
  QuantizeOptions options;
  options.left_alone.insert("b");
  const QuantizedModel made = quantized(model, options);
  EXPECT_THAT(names_of(made.quantized), ElementsAre("a"));
  EXPECT_THAT(reasons_of(made), UnorderedElementsAre(Pair("b", "asked for")));
  EXPECT_THAT(graph_of(made).initializers, UnorderedElementsAre(Key("w"), Key("w_quantized"), Key("w_scale")));
  expect_ordered(made);
}

TEST(Quantize, NamesNodesByThemselvesWhereTheyCan) {
  const auto named = [](std::string_view name, std::string_view output) {
    return onnx_test::node("MatMul", {"x", "w"}, {output}) + MessageWriter().bytes(schema::node::name, name).str();
  };
  ModelWriter model = model_of_four();
  model.add_to_graph(schema::graph::node, named("alone", "a"))
      .add_to_graph(schema::graph::node, named("twice", "b"))
      .add_to_graph(schema::graph::node, named("twice", "c"))
      .add_to_graph(schema::graph::node, named("", "y"))
      .add_initializer("w", {4, 3}, ramp(12));
  EXPECT_THAT(names_of(quantized(model).quantized), ElementsAre("alone", "b", "c", "y"));
  QuantizeOptions options;
  options.left_alone = {"alone", "c"};
  EXPECT_THAT(names_of(quantized(model, options).quantized), ElementsAre("b", "y"));
}

TEST(Quantize, MakesUpNamesThatNobodyHas) {
  ModelWriter model = model_of_four();
  model.add_node("Relu", {"x"}, {"w_quantized"})
      .add_node("MatMul", {"w_quantized", "w"}, {"y"})
      .add_initializer("w", {4, 3}, ramp(12))
      .add_initializer("w_scale", {1}, ramp(1));
  const QuantizedModel made = quantized(model);
  EXPECT_THAT(graph_of(made).initializers, AllOf(Contains(Key("w_quantized_2")), Contains(Key("w_scale_2"))));
  expect_ordered(made);
}

TEST(Quantize, ReadsWeightsFromWhereverTheyLie) {
  const std::vector<float> weights = ramp(12);
  const std::string raw(reinterpret_cast<const char*>(weights.data()), 48);
  const QuantizedModel expected = quantized(one_matmul());

  // In the typed field, packed or each by itself.
  for (const bool packed : {true, false}) {
    std::string tensor = MessageWriter()
                             .number(schema::tensor::dims, 4)
                             .number(schema::tensor::dims, 3)
                             .number(schema::tensor::data_type, 1)
                             .bytes(schema::tensor::name, "w")
                             .str();
    protozero::pbf_writer writer(tensor);
    if (packed) {
      writer.add_packed_float(schema::tensor::float_data, weights.begin(), weights.end());
    } else {
      for (const float weight : weights) writer.add_float(schema::tensor::float_data, weight);
    }
    ModelWriter model = model_of_four();
    model.add_node("MatMul", {"x", "w"}, {"y"}).add_to_graph(schema::graph::initializer, tensor);
    EXPECT_EQ(graph_of(quantized(model)).initializers.at("w_quantized").raw_data,
              graph_of(expected).initializers.at("w_quantized").raw_data);
  }

  // In a node Constant, which goes.
  ModelWriter model = model_of_four();
  const std::string value =
      MessageWriter()
          .bytes(schema::attribute::name, "value")
          .bytes(schema::attribute::t, onnx_test::raw_tensor("", ElementType::float32, {4, 3}, raw))
          .number(schema::attribute::type, 4)
          .str();
  model.add_node("Constant", {}, {"w"}, {value}).add_node("MatMul", {"x", "w"}, {"y"});
  const QuantizedModel made = quantized(model);
  EXPECT_THAT(operators_of(graph_of(made)), Not(Contains("Constant")));
  EXPECT_EQ(graph_of(made).initializers.at("w_quantized").raw_data,
            graph_of(expected).initializers.at("w_quantized").raw_data);
  EXPECT_EQ(made.weight_bytes_before, 48U);
  EXPECT_EQ(made.weight_bytes_after, 24U);
}

TEST(Quantize, BringsExternalWeightsIntoTheFile) {
  const test::TemporaryFolder folder;
  const std::vector<float> weights = ramp(15);
  folder.write("data.bin", {reinterpret_cast<const char*>(weights.data()), 60});
  ModelWriter model = model_of_four();
  model.add_node("MatMul", {"x", "w"}, {"p"})
      .add_node("Add", {"p", "b"}, {"y"})
      .add_to_graph(schema::graph::initializer,
                    onnx_test::external_tensor("w", ElementType::float32, {4, 3}, {{"location", "data.bin"}}))
      .add_to_graph(schema::graph::initializer,
                    onnx_test::external_tensor("b", ElementType::float32, {3},
                                               {{"location", "data.bin"}, {"offset", "48"}, {"length", "12"}}));
  const auto file = folder.write("model.onnx", model.bytes());
  const QuantizedModel made = quantize(file, {});
  const Graph graph = graph_of(made);
  EXPECT_EQ(graph.initializers.at("b").raw_data,
            std::string_view(reinterpret_cast<const char*>(weights.data() + 12), 12));
  EXPECT_THAT(inspect(content_of(made), file_name).external_files, IsEmpty());

  // Through a link, as in download caches.
  std::filesystem::create_directory(folder.path() / "links");
  std::filesystem::create_symlink(file, folder.path() / "links" / "model.onnx");
  std::filesystem::create_symlink(folder.path() / "data.bin", folder.path() / "links" / "data.bin");
  EXPECT_EQ(content_of(quantize(folder.path() / "links" / "model.onnx", {})), content_of(made));

  std::filesystem::resize_file(folder.path() / "data.bin", 40);
  try {
    (void)quantize(file, {});
    FAIL() << "cut off data was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_model);
    EXPECT_THAT(error.message(), HasSubstr("data.bin"));
  }
}

TEST(Quantize, TakesOldModelsInitializersForTheConstantsThatTheyAre) {
  ModelWriter old = one_matmul(11, 3);
  old.add_input("w", ElementType::float32, {4, 3});
  const QuantizedModel made = quantized(old);
  EXPECT_THAT(names_of(made.quantized), ElementsAre("y"));
  EXPECT_THAT(graph_of(made).inputs, ElementsAre("x"));
  EXPECT_EQ(inspect(content_of(made), file_name).ir_version, 4);
}

TEST(Quantize, WritesWhatItMade) {
  const test::TemporaryFolder folder;
  const QuantizedModel made = quantized(one_matmul());
  const test::RecordedDisk disk;
  made.write(folder.path() / "made.onnx");
  EXPECT_EQ(read_file(folder.path() / "made.onnx"), content_of(made));
  EXPECT_EQ(disk.risk_of_replaced(folder.path() / "made.onnx"), "");
}

/// A node that keeps its weights, and why.
struct LeftAlone {
  const char* name;
  std::function<ModelWriter()> model;
  const char* reason;  // "": it is not told, since it has no weights
};

ModelWriter with_weights(ElementType type, const Shape& shape, std::size_t bytes) {
  ModelWriter model = model_of_four();
  model.add_node("MatMul", {"x", "w"}, {"y"}).add_initializer("w", type, shape, std::string(bytes, '\0'));
  return model;
}

ModelWriter with_number(float number) {
  std::vector<float> weights = ramp(12);
  weights[7] = number;
  ModelWriter model = model_of_four();
  model.add_node("MatMul", {"x", "w"}, {"y"}).add_initializer("w", {4, 3}, weights);
  return model;
}

ModelWriter gemm(const std::vector<std::string>& attributes) {
  ModelWriter model = model_of_four();
  model.add_node("Gemm", {"x", "w", "b"}, {"y"}, attributes)
      .add_initializer("w", {4, 4}, ramp(16))
      .add_initializer("b", {4}, ramp(4));
  return model;
}

ModelWriter gather(const Shape& table, std::size_t count, const std::vector<std::string>& attributes = {}) {
  ModelWriter model;
  model.add_input("ids", ElementType::int64, {"n"}).add_output("y", ElementType::float32, {"n", "m"});
  model.add_node("Gather", {"w", "ids"}, {"y"}, attributes).add_initializer("w", table, ramp(count));
  return model;
}

const std::vector<LeftAlone> left_alone{
    {"float16",
     [] {
       return with_weights(ElementType::float16, {4, 3}, 24);
     },
     "its weights are float16, and float32 is quantized"},
    {"float64",
     [] {
       return with_weights(ElementType::float64, {4, 3}, 96);
     },
     "its weights are float64, and float32 is quantized"},
    {"batched",
     [] {
       return with_weights(ElementType::float32, {2, 4, 3}, 96);
     },
     "its weights have 3 dimensions, and two are quantized"},
    {"vector", [] { return with_weights(ElementType::float32, {4}, 16); },
     "its weights have 1 dimensions, and two are quantized"},
    {"empty",
     [] {
       return with_weights(ElementType::float32, {4, 0}, 0);
     },
     "its weights have no elements"},
    {"NaN", [] { return with_number(std::numeric_limits<float>::quiet_NaN()); }, "its weights have NaN or infinities"},
    {"infinity", [] { return with_number(-std::numeric_limits<float>::infinity()); },
     "its weights have NaN or infinities"},
    {"overridable",
     [] {
       ModelWriter model = one_matmul();
       model.add_input("w", ElementType::float32, {4, 3});
       return model;
     },
     "its weights are an input that the caller may give"},
    {"left operand",
     [] {
       ModelWriter model = model_of_four();
       model.add_node("MatMul", {"w", "x"}, {"y"}).add_initializer("w", {3, 4}, ramp(12));
       return model;
     },
     "its weights are the left operand"},
    {"computed",
     [] {
       ModelWriter model = model_of_four();
       model.add_node("Transpose", {"w"}, {"turned"})
           .add_node("MatMul", {"x", "turned"}, {"y"})
           .add_initializer("w", {3, 4}, ramp(12));
       return model;
     },
     "its weights are made by a node 'Transpose'"},
    {"both constant",
     [] {
       ModelWriter model = model_of_four();
       model.add_node("MatMul", {"v", "w"}, {"y"}).add_initializer("v", {3, 4}, ramp(12));
       model.add_initializer("w", {4, 3}, ramp(12));
       return model;
     },
     "both its operands are constants"},
    {"activations",
     [] {
       ModelWriter model = model_of_four();
       model.add_node("Transpose", {"x"}, {"t"}).add_node("MatMul", {"x", "t"}, {"y"});
       return model;
     },
     ""},
    {"another domain's",
     [] {
       ModelWriter model = model_of_four();
       model.add_opset("com.example", 1)
           .add_to_graph(schema::graph::node, onnx_test::node("MatMul", {"x", "w"}, {"y"}, {}, "com.example"))
           .add_initializer("w", {4, 3}, ramp(12));
       return model;
     },
     ""},
    {"transA", [] { return gemm({integer_attribute("transA", 1)}); }, "its input is transposed"},
    {"beta", [] { return gemm({float_attribute("beta", 0.5F)}); }, "its beta is 0.5"},
    {"few rows",
     [] {
       return gather({2, 8}, 16);
     },
     "a table of 2 rows saves nothing"},
    {"columns",
     [] {
       return gather({16, 2}, 32, {integer_attribute("axis", 1)});
     },
     "it takes parts along axis 1, not rows"},
    {"subgraph",
     [] {
       ModelWriter model = model_of_four();
       model.add_input("c", ElementType::boolean, {});
       const std::string branch =
           MessageWriter()
               .bytes(schema::graph::node, onnx_test::node("MatMul", {"x", "w"}, {"inner"}))
               .bytes(schema::graph::name, "branch")
               .bytes(schema::graph::output,
                      onnx_test::value_info("inner", onnx_test::tensor_type(ElementType::float32, {})))
               .str();
       model
           .add_node(
               "If", {"c"}, {"y"},
               {onnx_test::graph_attribute("then_branch", branch), onnx_test::graph_attribute("else_branch", branch)})
           .add_initializer("w", {4, 3}, ramp(12));
       return model;
     },
     "it is inside a subgraph of 'If'"},
    {"a subgraph's own weights",
     [] {
       ModelWriter model = model_of_four();
       model.add_input("c", ElementType::boolean, {});
       const std::vector<float> weights = ramp(12);
       const std::string_view raw(reinterpret_cast<const char*>(weights.data()), 48);
       const std::string branch =
           MessageWriter()
               .bytes(schema::graph::node, onnx_test::node("MatMul", {"x", "w"}, {"inner"}))
               .bytes(schema::graph::initializer, onnx_test::raw_tensor("w", ElementType::float32, {4, 3}, raw))
               .bytes(schema::graph::output,
                      onnx_test::value_info("inner", onnx_test::tensor_type(ElementType::float32, {})))
               .str();
       model.add_node(
           "If", {"c"}, {"y"},
           {onnx_test::graph_attribute("then_branch", branch), onnx_test::graph_attribute("else_branch", branch)});
       return model;
     },
     "it is inside a subgraph of 'If'"},
};

class LeftAloneTest : public testing::TestWithParam<LeftAlone> {};

TEST_P(LeftAloneTest, KeepsItsWeightsAndSaysWhy) {
  const ModelWriter model = GetParam().model();
  const QuantizedModel made = quantized(model);
  EXPECT_THAT(made.quantized, IsEmpty());
  const std::string reason = GetParam().reason;
  if (reason.empty()) {
    EXPECT_THAT(made.left_alone, IsEmpty());
  } else {
    ASSERT_THAT(made.left_alone, Not(IsEmpty()));
    EXPECT_EQ(made.left_alone.front().reason, reason);
    EXPECT_FALSE(made.left_alone.front().weights.empty());
  }
  // Nothing else has changed.
  const ModelInfo before = inspect(model.bytes(), file_name), after = inspect(content_of(made), file_name);
  EXPECT_EQ(before.operators, after.operators);
  EXPECT_EQ(before.parameter_bytes, after.parameter_bytes);
  EXPECT_EQ(before.signature.inputs.size(), after.signature.inputs.size());
}

INSTANTIATE_TEST_SUITE_P(Quantize, LeftAloneTest, testing::ValuesIn(left_alone), [](const auto& case_) {
  std::string name = case_.param.name;
  std::erase_if(name, [](unsigned char letter) { return std::isalnum(letter) == 0; });
  return name;
});

TEST(Quantize, KeepsWeightsThatSomethingElseNeeds) {
  struct Case {
    const char* name;
    std::function<void(ModelWriter&)> use;
  };

  const std::string branch =
      MessageWriter()
          .bytes(schema::graph::node, onnx_test::node("Relu", {"w"}, {"inner"}))
          .bytes(schema::graph::output,
                 onnx_test::value_info("inner", onnx_test::tensor_type(ElementType::float32, {})))
          .str();
  const std::string looks_through =
      MessageWriter()
          .bytes(schema::graph::output, onnx_test::value_info("w", onnx_test::tensor_type(ElementType::float32, {})))
          .str();
  const std::vector<Case> cases{
      {"a graph output",
       [](ModelWriter& model) {
         model.add_output("w", ElementType::float32, {4, 3});
       }},
      {"another node", [](ModelWriter& model) { model.add_node("Relu", {"w"}, {"z"}); }},
      {"a node of a subgraph",
       [&](ModelWriter& model) {
         model.add_node("If", {"c"}, {"z"}, {onnx_test::graph_attribute("then_branch", branch)});
       }},
      {"an output of a subgraph",
       [&](ModelWriter& model) {
         model.add_node("If", {"c"}, {"z"}, {onnx_test::graph_attribute("then_branch", looks_through)});
       }},
      {"the input of another product", [](ModelWriter& model) {
         model.add_node("MatMul", {"w", "v"}, {"z"})
             .add_initializer("v", ElementType::float16, {3, 3}, std::string(18, '\0'));
       }}};
  for (const Case& one : cases) {
    ModelWriter model = one_matmul();
    model.add_input("c", ElementType::boolean, {});
    one.use(model);
    const QuantizedModel made = quantized(model);
    EXPECT_THAT(names_of(made.quantized), ElementsAre("y")) << one.name;
    EXPECT_TRUE(graph_of(made).initializers.contains("w")) << one.name;
  }
}

TEST(Quantize, RefusesByOneLine) {
  struct Case {
    const char* name;
    std::string content;
    const char* reason;
  };

  const std::string huge = MessageWriter()
                               .number(schema::tensor::dims, std::int64_t{1} << 20)
                               .number(schema::tensor::dims, std::int64_t{1} << 20)
                               .number(schema::tensor::data_type, 1)
                               .bytes(schema::tensor::name, "w")
                               .bytes(schema::tensor::raw_data, "1234")
                               .str();
  ModelWriter lying = model_of_four();
  lying.add_node("MatMul", {"x", "w"}, {"y"}).add_to_graph(schema::graph::initializer, huge);
  ModelWriter attribute = one_matmul();
  attribute.add_node("Constant", {}, {"k"},
                     {MessageWriter()
                          .bytes(schema::attribute::name, "value")
                          .bytes(schema::attribute::t, onnx_test::external_tensor("k", ElementType::float32, {0},
                                                                                  {{"location", "quantize_test.cpp"}}))
                          .str()});
  const std::vector<Case> cases{
      {"opset 10", one_matmul(10).bytes(), "is written for opset 10; int8 needs 11 or later"},
      {"no model", "no model", "is not an ONNX model"},
      {"cut off", one_matmul().bytes().substr(0, 60), "damaged"},
      {"a claim of 4 TB", lying.bytes(), "tensor 'w'"},
      {"an attribute in another file", attribute.bytes(), "is not an initializer of the main graph"},
  };
  const std::filesystem::path here = std::filesystem::path(GPUX_SOURCE_DIR) / "tests" / "onnx" / file_name;
  for (const Case& one : cases) {
    try {
      (void)quantize(one.content, here, {});
      ADD_FAILURE() << one.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model) << one.name;
      EXPECT_THAT(error.message(), HasSubstr(one.reason)) << one.name;
      EXPECT_EQ(std::ranges::count(error.message(), '\n'), 0) << one.name;
    }
  }
}

// A file with a hole in it takes no room.
TEST(Quantize, RefusesWhatWouldStillBeBeyondTwoGigabytes) {
  const test::TemporaryFolder folder;
  folder.write("data.bin", "");
  std::filesystem::resize_file(folder.path() / "data.bin", std::uintmax_t{3} << 30);
  ModelWriter model = one_matmul();
  model.add_node("Relu", {"large"}, {"z"})
      .add_to_graph(
          schema::graph::initializer,
          onnx_test::external_tensor("large", ElementType::float32, {3 << 8, 1 << 20}, {{"location", "data.bin"}}));
  const auto file = folder.write("model.onnx", model.bytes());
  try {
    (void)quantize(file, {});
    FAIL() << "3 GB went into an ONNX file";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_model);
    EXPECT_THAT(error.message(), HasSubstr("2 GB"));
  }
}

}  // namespace
}  // namespace gpux::onnx
