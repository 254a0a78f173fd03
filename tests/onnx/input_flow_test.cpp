// What the outputs of a model follow from, in graphs made by hand.
#include "onnx/input_flow.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpux/error.h"
#include "model_writer.h"

namespace gpux::onnx {
namespace {

using onnx_test::graph_attribute;
using onnx_test::MessageWriter;
using onnx_test::ModelWriter;
using onnx_test::Names;
using onnx_test::node;
using onnx_test::tensor_type;
using onnx_test::value_info;

namespace schema = onnx::schema;

InputFlow flow_of(const ModelWriter& model) {
  return input_flow(model.bytes(), "m.onnx");
}

// float x[n, 4], i[n] and text s[n], and an output y; `c` is a constant.
ModelWriter model() {
  ModelWriter writer;
  writer.add_input("x", ElementType::float32, {"n", 4}).add_input("i", ElementType::int64, {"n"});
  writer.add_input("s", ElementType::string, {"n"}).add_initializer("c", {1}, std::vector<float>{1});
  return writer.add_output("y", ElementType::float32, {"n", ""});
}

std::string text_list(std::string_view name, std::string_view text) {
  return MessageWriter().bytes(schema::attribute::name, name).bytes(schema::attribute::strings, text).str();
}

TEST(InputFlow, KnowsWhatIsThereWhenTheModelIsLoaded) {
  EXPECT_TRUE(flow_of(model().add_node("Relu", {"x"}, {"y"})).reaches_outputs);
  EXPECT_FALSE(flow_of(model().add_node("Relu", {"c"}, {"y"})).reaches_outputs);
  EXPECT_FALSE(flow_of(model().add_node("Relu", {"x"}, {"other"}).add_node("Relu", {"c"}, {"y"})).reaches_outputs);
  EXPECT_TRUE(flow_of(model().add_node("Relu", {"c"}, {"a"}).add_node("Add", {"a", "x"}, {"y"})).reaches_outputs);
  // Sizes, where they are free.
  EXPECT_TRUE(flow_of(model().add_node("Shape", {"x"}, {"y"})).reaches_outputs);
  const auto fixed = [] { return ModelWriter().add_input("x", ElementType::float32, {2, 4}); };
  EXPECT_FALSE(
      flow_of(fixed().add_output("y", ElementType::int64, {2}).add_node("Shape", {"x"}, {"y"})).reaches_outputs);
  EXPECT_TRUE(
      flow_of(fixed().add_output("y", ElementType::float32, {2, 4}).add_node("Relu", {"x"}, {"y"})).reaches_outputs);
  // An output that is an input is not computed.
  EXPECT_FALSE(flow_of(fixed().add_output("x", ElementType::float32, {2, 4})).reaches_outputs);
  // An initializer of this version is a constant, though it is listed as an input.
  ModelWriter old(9, 3);
  old.add_input("w", ElementType::float32, {1}).add_initializer("w", {1}, std::vector<float>{1});
  EXPECT_FALSE(flow_of(old.add_output("y", ElementType::float32, {1}).add_node("Relu", {"w"}, {"y"})).reaches_outputs);
}

TEST(InputFlow, NamesOperatorsThatWorkByContents) {
  struct Case {
    const char* operator_type;
    std::vector<std::string_view> inputs;
    const char* expected;
  };

  const Case cases[] = {
      {"Relu", {"x"}, ""},
      {"NonZero", {"x"}, "NonZero"},
      {"NonZero", {"c"}, ""},
      {"NonZero", {"sizes"}, ""},  // as torch wrote arange()
      {"Unique", {"x"}, "Unique"},
      {"Compress", {"x", "c"}, ""},
      {"Compress", {"x", "i"}, "Compress"},
      {"NonMaxSuppression", {"c", "x"}, "NonMaxSuppression"},
      {"StringSplit", {"s"}, "StringSplit"},
      {"RegexFullMatch", {"s"}, "RegexFullMatch"},
      {"StringConcat", {"s", "c"}, ""},
      {"Reshape", {"x", "c"}, ""},
      {"Reshape", {"x", "sizes"}, ""},
      {"Reshape", {"x", "i"}, "Reshape"},
      {"Slice", {"x", "c", "c", "c"}, ""},
      {"Slice", {"x", "c", "i", "c"}, "Slice"},
      {"Range", {"c", "i", "c"}, "Range"},
      {"TopK", {"x", "c"}, ""},
      {"TopK", {"x", "i"}, "TopK"},
      {"ReduceMax", {"x", "c"}, ""},
      {"Gather", {"x", "i"}, ""},
      {"Where", {"x", "x", "c"}, ""},
  };
  for (const Case& c : cases) {
    ModelWriter writer = model().add_node("Shape", {"x"}, {"sizes"});
    MessageWriter made;
    for (const std::string_view input : c.inputs) made.bytes(schema::node::input, input);
    made.bytes(schema::node::output, "found").bytes(schema::node::op_type, c.operator_type);
    writer.add_to_graph(schema::graph::node, made.str());
    // Behind other nodes, and by way of its size, too.
    EXPECT_EQ(flow_of(ModelWriter(writer).add_node("Cast", {"found"}, {"y"})).content_operator, c.expected);
    EXPECT_EQ(flow_of(ModelWriter(writer).add_node("Size", {"found"}, {"y"})).content_operator, c.expected);
    // Nothing follows from it.
    EXPECT_EQ(flow_of(writer.add_node("Relu", {"x"}, {"y"})).content_operator, "") << c.operator_type;
  }
  // A list of words is as long whatever they are, unless some are left out.
  const auto normalized = [](const std::vector<std::string>& attributes) {
    return flow_of(model().add_node("StringNormalizer", {"s"}, {"y"}, attributes)).content_operator;
  };
  EXPECT_EQ(normalized({}), "");
  EXPECT_EQ(normalized({text_list("stopwords", "the")}), "StringNormalizer");
  // What fills up the shorter rows is not counted.
  const auto tokens = node("Tokenizer", {"s"}, {"words"}, {}, "com.microsoft");
  EXPECT_EQ(
      flow_of(model().add_to_graph(schema::graph::node, tokens).add_node("Cast", {"words"}, {"y"})).content_operator,
      "com.microsoft::Tokenizer");
  EXPECT_EQ(flow_of(model().add_to_graph(schema::graph::node, tokens).add_node("TfIdfVectorizer", {"words"}, {"y"}))
                .content_operator,
            "");
}

std::string body(const std::vector<std::string>& inputs, const std::vector<std::string>& nodes,
                 const std::vector<std::string>& outputs) {
  MessageWriter graph;
  for (const std::string& made : nodes) graph.bytes(schema::graph::node, made);
  const std::string type = tensor_type(ElementType::float32, {""});
  for (const std::string& input : inputs) graph.bytes(schema::graph::input, value_info(input, type));
  for (const std::string& output : outputs) graph.bytes(schema::graph::output, value_info(output, type));
  return graph.str();
}

TEST(InputFlow, FollowsSubgraphs) {
  const auto with_if = [](std::string_view condition, std::string_view inner, std::string_view of) {
    const std::string branch = body({}, {node(inner, {of}, {"b"})}, {"b"});
    return flow_of(model()
                       .add_node("Shape", {"x"}, {"sizes"})
                       .add_node("If", {condition}, {"y"},
                                 {graph_attribute("then_branch", branch), graph_attribute("else_branch", branch)}));
  };
  EXPECT_EQ(with_if("sizes", "Relu", "x").content_operator, "");
  EXPECT_TRUE(with_if("c", "Relu", "x").reaches_outputs) << "a value of the graph around it";
  EXPECT_EQ(with_if("i", "Relu", "c").content_operator, "If");
  EXPECT_EQ(with_if("c", "NonZero", "x").content_operator, "NonZero");

  const auto with_loop = [](std::string_view count, const std::vector<std::string>& nodes) {
    const std::string loop = body({"step", "on", "a", "b"}, nodes, {"next", "a2", "b2"});
    return flow_of(model()
                       .add_node("Shape", {"x"}, {"sizes"})
                       .add_node("Loop", {count, "", "c", "x"}, {"y", "z"}, {graph_attribute("body", loop)}));
  };
  const std::string goes_on = node("Identity", {"on"}, {"next"}), keeps_b = node("Identity", {"b"}, {"b2"});
  const auto plain = with_loop("sizes", {goes_on, node("Relu", {"a"}, {"a2"}), keeps_b});
  EXPECT_EQ(plain.content_operator, "");
  EXPECT_EQ(with_loop("i", {goes_on, node("Relu", {"a"}, {"a2"}), keeps_b}).content_operator, "Loop");
  EXPECT_EQ(
      with_loop("sizes", {node("ReduceMax", {"b"}, {"next"}), node("Relu", {"a"}, {"a2"}), keeps_b}).content_operator,
      "Loop")
      << "goes on as long as a value says";
  // What the first pass makes of b comes into a by the second.
  EXPECT_EQ(
      with_loop("sizes", {goes_on, node("Identity", {"b"}, {"a2"}), node("NonZero", {"a"}, {"b2"})}).content_operator,
      "NonZero");
}

TEST(InputFlow, FollowsLocalFunctionsAndNamesWhatItDoesNotKnow) {
  const auto call = node("F", {"x"}, {"y"}, {}, "own");
  const auto function = [](std::string_view inner) {
    return MessageWriter()
        .bytes(schema::function::name, "F")
        .bytes(schema::function::domain, "own")
        .bytes(schema::function::input, "a")
        .bytes(schema::function::output, "b")
        .bytes(schema::function::node, node(inner, {"a"}, {"b"}))
        .str();
  };
  const auto with = [&](std::string_view inner) {
    return flow_of(
        model().add_to_graph(schema::graph::node, call).add_to_model(schema::model::functions, function(inner)));
  };
  EXPECT_EQ(with("Relu").content_operator, "");
  EXPECT_EQ(with("Relu").foreign_operator, "");
  EXPECT_EQ(with("NonZero").content_operator, "NonZero");
  EXPECT_EQ(flow_of(model().add_to_graph(schema::graph::node, call)).foreign_operator, "own::F");
  EXPECT_EQ(flow_of(model().add_to_graph(schema::graph::node, node("F", {"c"}, {"y"}, {}, "own"))).foreign_operator,
            "");
  EXPECT_EQ(flow_of(model().add_to_graph(schema::graph::node, node("Gelu", {"x"}, {"y"}, {}, "com.microsoft")))
                .foreign_operator,
            "");
}

// Each function calls the next one twice: 2^40 nodes, of 80.
TEST(InputFlow, GivesUpOnWhatIsTooLarge) {
  ModelWriter writer = model().add_to_graph(schema::graph::node, node("F0", {"x"}, {"y"}, {}, "own"));
  for (int i = 0; i < 40; ++i) {
    const std::string next = "F" + std::to_string(i + 1);
    writer.add_to_model(schema::model::functions,
                        MessageWriter()
                            .bytes(schema::function::name, "F" + std::to_string(i))
                            .bytes(schema::function::domain, "own")
                            .bytes(schema::function::input, "a")
                            .bytes(schema::function::output, "c")
                            .bytes(schema::function::node, node(next, {"a"}, {"b"}, {}, "own"))
                            .bytes(schema::function::node, node(next, {"b"}, {"c"}, {}, "own"))
                            .str());
  }
  const InputFlow flow = flow_of(writer);
  EXPECT_EQ(flow.content_operator, "a graph of more than 262144 nodes");
  EXPECT_TRUE(flow.reaches_outputs);
  EXPECT_THROW((void)input_flow(model().bytes().substr(0, 40), "m.onnx"), Error);
}

}  // namespace
}  // namespace gpux::onnx
