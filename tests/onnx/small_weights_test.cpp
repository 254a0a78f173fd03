#include "onnx/small_weights.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "model_writer.h"
#include "onnx/model_file.h"
#include "onnx/model_functions.h"

namespace gpux::onnx {
namespace {

using onnx_test::ModelWriter;

std::vector<std::string> cast_to(ElementType type) {
  return {onnx_test::MessageWriter()
              .bytes(schema::attribute::name, "to")
              .number(schema::attribute::i, static_cast<int>(type))
              .number(schema::attribute::type, 2)
              .str()};
}

/// y = x * float32 of w, and what may differ.
struct Product {
  ElementType type = ElementType::bfloat16, wide = ElementType::float32;
  Shape shape{2, 2};
  std::string_view operator_type = "MatMul";
  bool weights_come_first = false;
  std::int64_t opset = 17, ir_version = 8;

  [[nodiscard]] ModelWriter model() const {
    ModelWriter model(opset, ir_version);
    std::size_t bytes = bits_of(type) / 8;
    for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
    model.add_input("x", wide, {2, 2})
        .add_output("y", wide, {2, 2})
        .add_initializer("w", type, shape, std::string(bytes, '\1'))
        .add_node("Cast", {"w"}, {"wide"}, cast_to(wide));
    if (weights_come_first) {
      model.add_node(operator_type, {"wide", "x"}, {"y"});
    } else {
      model.add_node(operator_type, {"x", "wide"}, {"y"});
    }
    return model;
  }
};

ModelInfo changed(const ModelWriter& model) {
  const auto content = with_widening_functions(model.bytes());
  EXPECT_TRUE(content.has_value());
  return inspect(content.value_or(""), "model.onnx");
}

TEST(SmallWeights, AreWidenedByAFunctionForProductsAndLookups) {
  for (const ElementType type : {ElementType::float16, ElementType::bfloat16}) {
    const ModelInfo info = changed(Product{.type = type}.model());
    EXPECT_EQ(info.operators.at("gpux.small_weights::Widen"), 1);
    EXPECT_EQ(info.operators.at("Cast"), 1);  // in the function
    EXPECT_EQ(info.signature.outputs.front().name, "y");
  }
  EXPECT_TRUE(with_widening_functions(Product{.operator_type = "Gemm"}.model().bytes()));
  EXPECT_TRUE(with_widening_functions(Product{.operator_type = "Gather", .weights_come_first = true}.model().bytes()));
}

// A table of tokens that is the weights of the logits, too.
TEST(SmallWeights, MayHaveSeveralReaders) {
  ModelWriter model = Product().model();
  model.add_node("Gather", {"wide", "ids"}, {"z"}).add_input("ids", ElementType::int64, {1});
  EXPECT_EQ(changed(model).operators.at("gpux.small_weights::Widen"), 1);
}

TEST(SmallWeights, StayWhereAnythingElseReadsThem) {
  ModelWriter by_another = Product().model(), as_output = Product().model(), as_rows = Product().model();
  by_another.add_node("Neg", {"wide"}, {"z"});
  as_output.add_output("wide", ElementType::float32, {2, 2});
  as_rows.add_node("MatMul", {"wide", "x"}, {"z"});
  for (const ModelWriter& model : {by_another, as_output, as_rows}) {
    EXPECT_EQ(with_widening_functions(model.bytes()), std::nullopt);
  }
}

TEST(SmallWeights, AreOtherwiseNone) {
  for (const Product& other :
       {Product{.type = ElementType::float32}, Product{.type = ElementType::float64},
        Product{.wide = ElementType::float16}, Product{.shape = {2, 2, 2}}, Product{.shape = {2}},
        Product{.operator_type = "Add"}, Product{.opset = 12}, Product{.ir_version = 7}}) {
    EXPECT_EQ(with_widening_functions(other.model().bytes()), std::nullopt);
  }
  ModelWriter given = Product().model();
  given.add_input("w", ElementType::bfloat16, {2, 2});
  EXPECT_EQ(with_widening_functions(given.bytes()), std::nullopt);
  ModelWriter of_domain = Product().model();
  of_domain.add_opset(small_weights_domain, 1);
  EXPECT_EQ(with_widening_functions(of_domain.bytes()), std::nullopt);
}

TEST(ModelFunctions, HaveDomainsThatFilesMayNotHave) {
  EXPECT_TRUE(is_domain_of_functions(small_weights_domain));
  EXPECT_TRUE(is_domain_of_functions("gpux.int8_rows"));
  for (const char* other : {"", "gpux", "gpux.test", "com.microsoft", "ai.onnx"}) {
    EXPECT_FALSE(is_domain_of_functions(other)) << other;
  }
}

}  // namespace
}  // namespace gpux::onnx
