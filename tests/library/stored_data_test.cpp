// External data of subgraphs and attributes, from a folder, from the store and through links.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "gpux/model.h"
#include "gpux/store.h"
#include "onnx/model_writer.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using namespace onnx_test;

std::string external(std::string_view name, const char* offset) {
  return external_tensor(name, ElementType::float32, {3},
                         {{"location", "w.bin"}, {"offset", offset}, {"length", "12"}});
}

std::string branch(std::string_view name, std::string_view operation, std::string_view output, const char* offset) {
  return MessageWriter()
      .bytes(schema::graph::node, node(operation, {"x", "w"}, {output}))
      .bytes(schema::graph::name, name)
      .bytes(schema::graph::initializer, external("w", offset))
      .bytes(schema::graph::output, value_info(output, tensor_type(ElementType::float32, {3})))
      .str();
}

// x + [1, 2, 3] by an If, and by a Constant node.
std::string with_branches() {
  return ModelWriter()
      .add_input("c", ElementType::boolean, {})
      .add_input("x", ElementType::float32, {3})
      .add_output("y", ElementType::float32, {3})
      .add_node("If", {"c"}, {"y"},
                {graph_attribute("then_branch", branch("then", "Add", "t", "0")),
                 graph_attribute("else_branch", branch("else", "Mul", "e", "12"))})
      .bytes();
}

std::string with_constant() {
  const std::string value = MessageWriter()
                                .bytes(schema::attribute::name, "value")
                                .bytes(schema::attribute::t, external("k", "0"))
                                .number(schema::attribute::type, 4)
                                .str();
  return ModelWriter()
      .add_input("x", ElementType::float32, {3})
      .add_output("y", ElementType::float32, {3})
      .add_node("Constant", {}, {"k"}, {value})
      .add_node("Add", {"x", "k"}, {"y"})
      .bytes();
}

class StoredData : public testing::Test {
 protected:
  StoredData() {
    ::setenv("GPUX_HOME", (folder_.path() / "home").c_str(), 1);
    constexpr std::array<float, 6> weights{1, 2, 3, 4, 5, 6};
    folder_.write("model/w.bin", {reinterpret_cast<const char*>(weights.data()), sizeof(weights)});
  }

  static std::vector<float> answer(const std::string& name, bool has_condition) {
    const Model model(name);
    NamedValues inputs{{"x", Tensor::of<float>({3}, std::array<float, 3>{1, 1, 1})}};
    if (has_condition) {
      Tensor condition = Tensor::allocate(ElementType::boolean, {});
      condition.mutable_as<bool>()[0] = true;
      inputs.emplace_back("c", std::move(condition));
    }
    const NamedValues outputs = model.infer(inputs);
    const std::span<const float> values = outputs.front().second.tensor()->as<float>();
    return {values.begin(), values.end()};
  }

  test::TemporaryFolder folder_;
};

TEST_F(StoredData, OfSubgraphsAndAttributesIsRead) {
  const std::vector<float> expected{2, 3, 4};
  ModelStore store;
  for (const bool has_branches : {true, false}) {
    const fs::path file = folder_.write("model/m.onnx", has_branches ? with_branches() : with_constant());
    const std::string name = has_branches ? "branches" : "constant";
    EXPECT_EQ(answer(file.string(), has_branches), expected) << name;
    (void)store.build(file.string(), name);
    EXPECT_EQ(answer(name, has_branches), expected) << name << " from the store";
    // As a download cache lays it out.
    const fs::path cache = folder_.path() / name;
    fs::create_directories(cache);
    for (const char* link : {"m.onnx", "w.bin"}) fs::create_symlink("../model/" + std::string(link), cache / link);
    EXPECT_EQ(answer((cache / "m.onnx").string(), has_branches), expected) << name << " through links";
  }
}

}  // namespace
}  // namespace gpux
