#include "onnx/included_data.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "onnx/model_file.h"
#include "onnx/model_writer.h"

namespace gpux::onnx_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* data = "abcdefghijkl";  // three float32

std::string external(std::string_view name, const std::string& location = "w.bin") {
  return external_tensor(name, ElementType::float32, {3}, {{"location", location}, {"offset", "4"}, {"length", "12"}});
}

std::string tensor_attribute(std::string_view name, std::string_view tensor) {
  return MessageWriter().bytes(schema::attribute::name, name).bytes(schema::attribute::t, tensor).str();
}

std::string branch(const std::string& initializer) {
  return MessageWriter().bytes(schema::graph::name, "branch").bytes(schema::graph::initializer, initializer).str();
}

// With a large tensor of the main graph too, which ONNX Runtime maps.
ModelWriter model() {
  ModelWriter writer;
  writer.add_input("x", ElementType::float32, {3})
      .add_output("y", ElementType::float32, {3})
      .add_to_graph(schema::graph::initializer, external("main"));
  return writer;
}

class IncludedData : public testing::Test {
 protected:
  IncludedData() { folder_.write("w.bin", std::string("0000") + data); }

  std::optional<std::string> included(const ModelWriter& writer) {
    return onnx::with_included_data(folder_.write("model.onnx", writer.bytes()));
  }

  void link() { fs::create_hard_link(folder_.path() / "w.bin", folder_.path() / "again.bin"); }

  test::TemporaryFolder folder_;
};

TEST_F(IncludedData, IsThatOfEachPlaceBelowTheMainGraph) {
  link();
  const std::string inner = branch(external("deep"));
  const std::string nested =
      MessageWriter()
          .bytes(schema::graph::node, node("If", {"c"}, {"z"}, {graph_attribute("then_branch", inner)}))
          .str();
  const std::string sparse = MessageWriter()
                                 .bytes(schema::sparse_tensor::values, external("values"))
                                 .number(schema::sparse_tensor::dims, 9)
                                 .str();
  const std::string function =
      MessageWriter()
          .bytes(schema::function::name, "f")
          .bytes(schema::function::node, node("Constant", {}, {"k"}, {tensor_attribute("value", external("k"))}))
          .str();
  const std::vector<ModelWriter> cases{
      model().add_node("If", {"c"}, {"y"}, {graph_attribute("then_branch", inner)}),
      model().add_node("If", {"c"}, {"y"}, {graph_attribute("then_branch", nested)}),
      model().add_node("Constant", {}, {"y"}, {tensor_attribute("value", external("k"))}),
      model().add_to_graph(schema::graph::sparse_initializer, sparse),
      model().add_to_model(schema::model::functions, function),
  };
  for (const ModelWriter& one : cases) {
    const auto whole = included(one);
    ASSERT_TRUE(whole);
    EXPECT_THAT(*whole, testing::HasSubstr(data));
    const ModelInfo before = onnx::inspect(folder_.path() / "model.onnx");
    const ModelInfo after = onnx::inspect(*whole, folder_.path() / "model.onnx");
    EXPECT_EQ(after.operators, before.operators);
    EXPECT_EQ(after.parameter_bytes, before.parameter_bytes);
    ASSERT_EQ(after.external_files.size(), 1U) << "the main graph's stays outside";
  }
}

TEST_F(IncludedData, StaysWhereItIsTaken) {
  const std::string inner = branch(external("deep"));
  const ModelWriter writer = model().add_node("If", {"c"}, {"y"}, {graph_attribute("then_branch", inner)});
  EXPECT_FALSE(included(writer)) << "a file of one name";
  link();
  EXPECT_TRUE(included(writer));
  EXPECT_FALSE(included(model())) << "the main graph alone";
  fs::remove(folder_.path() / "again.bin");
  fs::rename(folder_.path() / "w.bin", folder_.path() / "blob");
  fs::create_symlink("blob", folder_.path() / "w.bin");
  EXPECT_TRUE(included(writer)) << "a link, as in download caches";
  EXPECT_FALSE(onnx::with_included_data(folder_.write("model.onnx", "no model")));
}

TEST_F(IncludedData, HasToBeThere) {
  link();
  const ModelWriter missing =
      model().add_node("Constant", {}, {"y"}, {tensor_attribute("value", external("k", "none.bin"))});
  EXPECT_THROW((void)included(missing), Error);
  folder_.write("short.bin", "0000abcd");
  const ModelWriter too_short =
      model().add_node("Constant", {}, {"y"}, {tensor_attribute("value", external("k", "short.bin"))});
  fs::create_hard_link(folder_.path() / "short.bin", folder_.path() / "s.bin");
  EXPECT_THROW((void)included(too_short), Error);
}

}  // namespace
}  // namespace gpux::onnx_test
