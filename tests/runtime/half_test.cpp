// Models in float16, made by onnx::to_float16(), against themselves in float32.
#include "onnx/half.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "onnx/model_writer.h"
#include "runtime/cpu_runtime.h"

namespace gpux::runtime {
namespace {

using onnx_test::Dimensions;
using onnx_test::ModelWriter;
using testing::ElementsAre;

constexpr std::int64_t width = 6;
const Dimensions rows{"batch", width};

std::string integer_attribute(std::string_view name, std::int64_t value) {
  return onnx_test::MessageWriter()
      .bytes(onnx::schema::attribute::name, name)
      .number(onnx::schema::attribute::i, value)
      .number(onnx::schema::attribute::type, 2)
      .str();
}

std::vector<float> numbers(std::size_t count, float step) {
  std::vector<float> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = std::sin(step * static_cast<float>(i + 1));
  return made;
}

std::string int64s(const std::vector<std::int64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t)};
}

class Half : public CpuRuntime {
 protected:
  /// Runs the model and its float16 on the same input; outputs have to be of one type, and near. Gives the names of the
  /// nodes that were converted and have weights.
  std::vector<std::string> compare(const ModelWriter& model, const NamedValues& inputs,
                                   const std::set<std::string, std::less<>>& left_alone = {}) {
    const std::filesystem::path file = folder_.write("model.onnx", model.bytes());
    const onnx::QuantizedModel half = onnx::to_float16(file, left_alone);
    const std::filesystem::path written = folder_.path() / "half.onnx";
    half.write(written);
    const LoadOptions cpu{.provider = "cpu", .intra_threads = 1};
    const NamedValues expected = Runtime(file, cpu).infer(inputs);
    const Runtime runtime(written, cpu);
    const NamedValues got = runtime.infer(inputs);
    EXPECT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Tensor &left = *expected[i].second.tensor(), &right = *got[i].second.tensor();
      EXPECT_EQ(got[i].first, expected[i].first);
      EXPECT_EQ(left.type(), right.type()) << expected[i].first;
      EXPECT_EQ(left.shape(), right.shape()) << expected[i].first;
      if (left.type() != ElementType::float32 || right.type() != ElementType::float32) continue;
      for (std::size_t k = 0; k < left.as<float>().size(); ++k) {
        const float one = left.as<float>()[k];
        EXPECT_NEAR(one, right.as<float>()[k], 0.01 * std::max(1.0F, std::abs(one))) << expected[i].first << " " << k;
      }
    }
    before_ = half.weight_bytes_before;
    after_ = half.weight_bytes_after;
    std::vector<std::string> names;
    for (const onnx::QuantizedNode& node : half.quantized) names.push_back(node.name);
    return names;
  }

  static NamedValues x() { return {{"x", Tensor::of<float>({2, width}, std::span<const float>(numbers(12, 0.7F)))}}; }

  test::TemporaryFolder folder_;
  std::uint64_t before_ = 0, after_ = 0;
};

TEST_F(Half, ComputesWithHalfTheBytes) {
  ModelWriter model;
  model.add_input("x", ElementType::float32, rows)
      .add_output("y", ElementType::float32, rows)
      .add_initializer("w", {width, width}, numbers(36, 0.3F))
      .add_initializer("b", {width}, numbers(6, 1.1F))
      .add_node("MatMul", {"x", "w"}, {"product"})
      .add_node("Add", {"product", "b"}, {"sum"})
      .add_node("Softmax", {"sum"}, {"y"});
  EXPECT_THAT(compare(model, x()), ElementsAre("product", "sum"));
  EXPECT_EQ(before_, 42 * 4U);
  EXPECT_EQ(after_, 42 * 2U);
  EXPECT_THAT(compare(model, x(), {"product"}), ElementsAre("sum"));
  EXPECT_EQ(after_, 36 * 4U + 6 * 2U);
}

TEST_F(Half, LeavesWhatWantsFloat32BetweenCasts) {
  ModelWriter model;
  model.add_input("x", ElementType::float32, rows)
      .add_output("best", ElementType::float32, {"batch", 2})
      .add_output("place", ElementType::int64, {"batch", 2})
      .add_output("twice", ElementType::float32, rows)
      .add_output("shifted", ElementType::float32, rows)
      .add_initializer("w", {width, width}, numbers(36, 0.3F))
      .add_initializer("two", ElementType::int64, {1}, int64s({2}))
      .add_initializer("shape", ElementType::int64, {2}, int64s({-1, width}))
      .add_node("MatMul", {"x", "w"}, {"product"})
      .add_node("Add", {"product", "product"}, {"twice"})
      .add_node("TopK", {"twice", "two"}, {"best", "place"})
      .add_node("Shape", {"product"}, {"sizes"})
      .add_node("ConstantOfShape", {"sizes"}, {"zeros"})
      .add_node("Reshape", {"zeros", "shape"}, {"flat"})
      .add_node("Sub", {"product", "flat"}, {"shifted"});
  EXPECT_THAT(compare(model, x()), ElementsAre("product"));
}

TEST_F(Half, FollowsConstantsMasksAndWholeNumbers) {
  const std::string number =
      onnx_test::MessageWriter()
          .bytes(onnx::schema::attribute::name, "value")
          .bytes(onnx::schema::attribute::t,
                 onnx_test::raw_tensor("", ElementType::float32, {1}, std::string("\x00\x00\x00\x40", 4)))
          .number(onnx::schema::attribute::type, 4)
          .str();
  ModelWriter model;
  model.add_input("x", ElementType::float32, rows)
      .add_input("mask", ElementType::boolean, rows)
      .add_output("y", ElementType::float32, rows)
      .add_output("constant", ElementType::float32, {1})
      .add_output("square", ElementType::float32, rows)
      .add_initializer("low", {1}, std::vector<float>{-1e30F})
      .add_initializer("exponent", ElementType::int64, {1}, int64s({2}))
      .add_node("Constant", {}, {"constant"}, {number})
      .add_node("Mul", {"x", "constant"}, {"twice"})
      .add_node("Where", {"mask", "twice", "low"}, {"masked"})
      .add_node("Softmax", {"masked"}, {"y"})
      .add_node("Pow", {"twice", "exponent"}, {"square"});
  NamedValues inputs = x();
  inputs.emplace_back(
      "mask", tensor<bool>({2, width}, {true, false, true, true, true, false, true, true, false, false, true, true}));
  EXPECT_THAT(compare(model, inputs), testing::IsEmpty()) << "single numbers are no weights";
}

TEST_F(Half, KeepsWhatSubgraphsUse) {
  const std::string then_branch =
      onnx_test::MessageWriter()
          .bytes(onnx::schema::graph::node, onnx_test::node("Neg", {"product"}, {"a"}))
          .bytes(onnx::schema::graph::name, "then")
          .bytes(onnx::schema::graph::output,
                 onnx_test::value_info("a", onnx_test::tensor_type(ElementType::float32, rows)))
          .str();
  const std::string else_branch =
      onnx_test::MessageWriter()
          .bytes(onnx::schema::graph::node, onnx_test::node("Add", {"w", "w"}, {"b"}))
          .bytes(onnx::schema::graph::name, "else")
          .bytes(onnx::schema::graph::output,
                 onnx_test::value_info("b", onnx_test::tensor_type(ElementType::float32, rows)))
          .str();
  ModelWriter model;
  model.add_input("x", ElementType::float32, rows)
      .add_input("which", ElementType::boolean, {1})
      .add_output("y", ElementType::float32, rows)
      .add_initializer("w", {width, width}, numbers(36, 0.3F))
      .add_node("MatMul", {"x", "w"}, {"product"})
      .add_node("If", {"which"}, {"chosen"},
                {onnx_test::graph_attribute("then_branch", then_branch),
                 onnx_test::graph_attribute("else_branch", else_branch)})
      .add_node("Relu", {"chosen"}, {"y"});
  for (const bool which : {true, false}) {
    NamedValues inputs = x();
    inputs.emplace_back("which", tensor<bool>({1}, {which}));
    EXPECT_THAT(compare(model, inputs), ElementsAre("product"));
  }
}

TEST_F(Half, SplitsConvolvesAndTakesWeightsThatMayBeGiven) {
  const Dimensions image_shape{"batch", 2, 4, 4};
  ModelWriter model;
  model.add_input("x", ElementType::float32, image_shape)
      .add_input("scale", ElementType::float32, {1})
      .add_output("left", ElementType::float32, {"batch", 1, 4, 4})
      .add_output("right", ElementType::float32, {"batch", 1, 4, 4})
      .add_initializer("scale", {1}, std::vector<float>{3})
      .add_initializer("w", {2, 2, 3, 3}, numbers(36, 0.3F))
      .add_initializer("parts", ElementType::int64, {2}, int64s({1, 1}))
      .add_node("Conv", {"x", "w"}, {"convolved"},
                {onnx_test::MessageWriter()
                     .bytes(onnx::schema::attribute::name, "auto_pad")
                     .bytes(onnx::schema::attribute::s, "SAME_UPPER")
                     .number(onnx::schema::attribute::type, 3)
                     .str()})
      .add_node("Mul", {"convolved", "scale"}, {"scaled"})
      .add_node("Split", {"scaled", "parts"}, {"left", "right"}, {integer_attribute("axis", 1)});
  const NamedValues inputs{{"x", Tensor::of<float>({1, 2, 4, 4}, std::span<const float>(numbers(32, 0.4F)))}};
  EXPECT_THAT(compare(model, inputs), ElementsAre("convolved"));
  NamedValues given = inputs;
  given.emplace_back("scale", floats({1}, {0.5F}));
  EXPECT_THAT(compare(model, given), ElementsAre("convolved"));
}

// DeBERTa's table of relative positions: ONNX Runtime 1.31.1 crashes on float16 products of constants.
TEST_F(Half, ComputesWithConstantsInFloat32AndStoresSharedWeightsOnce) {
  ModelWriter model;
  model.add_input("x", ElementType::float32, rows)
      .add_output("y", ElementType::float32, {"batch", 4})
      .add_initializer("w", {width, width}, numbers(36, 0.3F))
      .add_initializer("b", {width}, numbers(6, 1.1F))
      .add_initializer("table", {4, width}, numbers(24, 0.9F))
      .add_node("MatMul", {"table", "w"}, {"table_product"})
      .add_node("Add", {"table_product", "b"}, {"table_sum"})
      .add_node("Transpose", {"table_sum"}, {"columns"})
      .add_node("MatMul", {"x", "w"}, {"product"})
      .add_node("Add", {"product", "b"}, {"sum"})
      .add_node("MatMul", {"sum", "columns"}, {"y"});
  EXPECT_THAT(compare(model, x()), ElementsAre("product", "sum"));
  EXPECT_EQ(after_, 42 * 2U + 24 * 4U);
}

TEST_F(Half, RefusesWhatItCannotRead) {
  const std::filesystem::path file = folder_.write("cut.onnx", ModelWriter()
                                                                   .add_input("x", ElementType::float32, rows)
                                                                   .add_output("y", ElementType::float32, rows)
                                                                   .add_node("Relu", {"x"}, {"y"})
                                                                   .bytes());
  std::string content = read_file(file);
  content.resize(content.size() - 3);
  EXPECT_THROW((void)onnx::to_float16(content, file, {}), Error);
  EXPECT_THROW((void)onnx::to_float16(test_model("external_missing"), {}), Error);
}

}  // namespace
}  // namespace gpux::runtime
