#include "evaluation/precision_gate.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/machine.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "onnx/model_writer.h"
#include "runtime/cpu_runtime.h"

namespace gpux::evaluation {
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

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST(Agreement, IsThatOfTheOutputFurthestOff) {
  struct Case {
    const char* name;
    NamedValues expected, got;
    double cosine;
  };

  const Tensor right = floats({2}, {1, 0}), turned = floats({2}, {0, 1}), between = floats({2}, {1, 1});
  const Tensor count = tensor<std::int64_t>({4}, {1, 2, 3, 4}), other_count = tensor<std::int64_t>({4}, {1, 2, 3, 5});
  const std::vector<Case> cases{
      {"equal", {{"y", right}}, {{"y", right}}, 1},
      {"apart", {{"y", right}}, {{"y", turned}}, 0},
      {"the worst counts", {{"y", right}, {"z", right}}, {{"y", right}, {"z", between}}, std::sqrt(0.5)},
      {"the worst counts where it comes first",
       {{"y", right}, {"z", right}},
       {{"y", between}, {"z", right}},
       std::sqrt(0.5)},
      {"missing", {{"y", right}}, {{"z", right}}, 0},
      {"another shape", {{"y", right}}, {{"y", floats({1, 2}, {1, 0})}}, 0},
      {"NaN", {{"y", right}}, {{"y", floats({2}, {1, nan})}}, 0},
      {"NaN where one is expected", {{"y", floats({2}, {1, nan})}}, {{"y", floats({2}, {2, nan})}}, 1},
      {"zeros", {{"y", floats({2}, {0, 0})}}, {{"y", right}}, 0},
      {"integers beside floats do not count", {{"y", right}, {"n", count}}, {{"y", right}, {"n", other_count}}, 1},
      {"integers alone", {{"n", count}}, {{"n", other_count}}, 0.75},
      {"equal integers", {{"n", count}}, {{"n", count}}, 1},
  };
  for (const Case& one : cases) {
    const Agreement found = agreement({one.expected}, {one.got});
    EXPECT_NEAR(found.mean, one.cosine, 1e-12) << one.name;
    EXPECT_EQ(found.mean, found.least) << one.name;
  }
}

TEST(Agreement, HasTheMeanAndTheLeastOfAllSamples) {
  const NamedValues right{{"y", floats({2}, {1, 0})}}, turned{{"y", floats({2}, {0, 1})}};
  const Agreement found = agreement({right, right, right}, {right, turned});  // the third has no answer
  EXPECT_THAT(found.cosines, ElementsAre(1, 0, 0));
  EXPECT_DOUBLE_EQ(found.mean, 1.0 / 3);
  EXPECT_EQ(found.least, 0);
  EXPECT_THAT(agreement({}, {}).cosines, IsEmpty());
}

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(random()) / 4294967296.0F - 0.5F;
  return numbers;
}

std::string attribute(std::string_view name, float value) {
  std::string text = MessageWriter().bytes(onnx::schema::attribute::name, name).str();
  protozero::pbf_writer(text).add_float(onnx::schema::attribute::f, value);
  return text + MessageWriter().number(onnx::schema::attribute::type, 1).str();
}

std::string attribute(std::string_view name, std::int64_t value) {
  return MessageWriter()
      .bytes(onnx::schema::attribute::name, name)
      .number(onnx::schema::attribute::i, value)
      .number(onnx::schema::attribute::type, 2)
      .str();
}

constexpr std::int64_t width = 64;
constexpr std::size_t weights = std::size_t{64} * 64;

ModelWriter of_width() {
  ModelWriter model;
  return model.add_input("x", ElementType::float32, {"n", width}).add_output("y", ElementType::float32, {"n", width});
}

/// Where the first column of x is far larger than the others, and counts for nothing: in 8 bits the others are rounded
/// away.
NamedValues lopsided() {
  std::vector<float> x = random_floats(2 * width, 5);
  x[0] = x[width] = 150;
  return {{"x", Tensor::of<float>({2, width}, std::span<const float>(x))}};
}

std::vector<float> without_first_row(unsigned seed) {
  std::vector<float> w = random_floats(weights, seed);
  std::fill_n(w.begin(), width, 0.0F);
  return w;
}

class PrecisionGate : public CpuRuntime {
 protected:
  GatedVariant make(const ModelWriter& model, const GateOptions& options = {}) {
    (void)folder_.write("model.onnx", model.bytes());
    return make_gated_variant(
        source(), target(),
        [this](const Runtime& runtime) {
          Answers answers;
          for (const NamedValues& sample : samples_) answers.push_back(runtime.infer(sample));
          return answers;
        },
        options);
  }

  [[nodiscard]] std::filesystem::path source() const { return folder_.path() / "model.onnx"; }

  [[nodiscard]] std::filesystem::path target() const { return folder_.path() / "int8.onnx"; }

  /// The operators that run after ONNX Runtime's own optimization.
  std::map<std::string, std::uint64_t> fused() {
    LoadOptions options;
    options.provider = "cpu";
    options.optimized_model = folder_.path() / "fused.onnx";
    const Runtime runtime(target(), options);
    return ModelInspector::inspect(options.optimized_model).operators;
  }

  static NamedValues rows(std::int64_t count, unsigned seed) {
    const std::vector<float> x = random_floats(static_cast<std::size_t>(count * width), seed);
    return {{"x", Tensor::of<float>({count, width}, std::span<const float>(x))}};
  }

  test::TemporaryFolder folder_;
  std::vector<NamedValues> samples_{rows(1, 1), rows(7, 2)};
};

TEST_F(PrecisionGate, MakesProductsThatOnnxRuntimeFuses) {
  struct Case {
    const char* name;
    ModelWriter model;
    const char* kernel;
  };

  ModelWriter product = of_width();
  product.add_node("MatMul", {"x", "w"}, {"y"}).add_initializer("w", {width, width}, random_floats(weights, 3));
  ModelWriter biased = of_width();
  biased.add_node("MatMul", {"x", "w"}, {"p"})
      .add_node("Add", {"p", "b"}, {"y"})
      .add_initializer("w", {width, width}, random_floats(weights, 3))
      .add_initializer("b", {width}, random_floats(width, 4));
  ModelWriter gemm = of_width();
  gemm.add_node("Gemm", {"x", "w", "b"}, {"y"}, {attribute("transB", std::int64_t{1}), attribute("alpha", 0.25F)})
      .add_initializer("w", {width, width}, random_floats(weights, 3))
      .add_initializer("b", {width}, random_floats(width, 4));
  ModelWriter shared = of_width();
  shared.add_node("MatMul", {"x", "w"}, {"p"})
      .add_node("MatMul", {"x", "v"}, {"q"})
      .add_node("Mul", {"p", "q"}, {"y"})
      .add_initializer("w", {width, width}, random_floats(weights, 3))
      .add_initializer("v", {width, width}, random_floats(weights, 6));
  for (const Case& one : {Case{"MatMul", product, "com.microsoft::DynamicQuantizeMatMul"},
                          Case{"MatMul and Add", biased, "com.microsoft::DynamicQuantizeMatMul"},
                          Case{"Gemm", gemm, "com.microsoft::DynamicQuantizeMatMul"},
                          Case{"two of one input", shared, "com.microsoft::MatMulIntegerToFloat"}}) {
    for (const bool reduce_range : {false, true}) {
      if (!reduce_range && !adds_byte_products_exactly(Machine::this_one())) continue;
      const GatedVariant made = make(one.model, {.reduce_range = reduce_range});
      EXPECT_GT(made.agreement.least, 0.999) << one.name;
      EXPECT_LT(made.agreement.least, 1) << one.name;
      EXPECT_THAT(made.excluded, IsEmpty());
      EXPECT_LT(made.weight_bytes_after, made.weight_bytes_before / 3);
      const auto operators = fused();
      EXPECT_THAT(operators, AllOf(Contains(Key(one.kernel)), Not(Contains(Key("MatMulInteger"))))) << one.name;
      if (std::string(one.name) == "MatMul and Add") {
        EXPECT_THAT(operators, Not(Contains(Key("Add"))));
      }
    }
  }
}

TEST_F(PrecisionGate, GathersRowsThatAreNearlyTheTables) {
  ModelWriter model;
  model.add_input("ids", ElementType::int64, {"n", "m"}).add_output("y", ElementType::float32, {"n", "m", width});
  std::vector<float> table = random_floats(weights, 7);
  std::fill_n(table.begin() + 2 * width, width, 0.0F);
  for (std::size_t i = 0; i < width; ++i)
    table[3 * width + i] *= 1e-6F;  // rows far smaller than others keep their digits
  model.add_node("Gather", {"table", "ids"}, {"y"}).add_initializer("table", {width, width}, table);
  samples_ = {{{"ids", tensor<std::int64_t>({2, 2}, {0, 63, -1, 2})}}, {{"ids", tensor<std::int64_t>({1, 1}, {3})}}};
  const GatedVariant made = make(model);
  EXPECT_GT(made.agreement.least, 0.9999);
  EXPECT_LT(made.weight_bytes_after, made.weight_bytes_before / 3);
}

TEST_F(PrecisionGate, LeavesOutWhatDoesMostHarmUntilTheRestPasses) {
  ModelWriter model = of_width();
  model.add_output("z", ElementType::float32, {"n", width})
      .add_output("h", ElementType::float32, {"n", width})
      .add_node("Tanh", {"x"}, {"even"})
      .add_node("MatMul", {"even", "good"}, {"y"})
      .add_node("MatMul", {"x", "bad"}, {"z"})
      .add_node("Mul", {"x", "slope"}, {"tilted"})
      .add_node("MatMul", {"tilted", "worse"}, {"h"})
      .add_initializer("good", {width, width}, random_floats(weights, 8))
      .add_initializer("bad", {width, width}, without_first_row(9))
      .add_initializer("worse", {width, width}, without_first_row(10));
  std::vector<float> slope(width, 1.0F);
  slope[0] = 100;
  model.add_initializer("slope", {width}, slope);
  samples_ = {lopsided()};
  const GatedVariant made = make(model);
  EXPECT_LT(made.at_first.mean, 0.98);
  EXPECT_GE(made.agreement.mean, 0.98);
  ASSERT_EQ(made.excluded.size(), 2U);
  EXPECT_EQ(made.excluded[0].node.name, "h");
  EXPECT_EQ(made.excluded[1].node.name, "z");
  EXPECT_LE(made.excluded[0].alone, made.excluded[1].alone);
  ASSERT_EQ(made.quantized.size(), 1U);
  EXPECT_EQ(made.quantized[0].name, "y");
  // What was written is what was measured.
  EXPECT_THAT(ModelInspector::inspect(target()).operators,
              AllOf(Contains(std::pair("MatMul", 2U)), Contains(std::pair("MatMulInteger", 1U))));
}

TEST_F(PrecisionGate, RefusesWhatDoesNotPassWithAnything) {
  ModelWriter model = of_width();
  model.add_node("MatMul", {"x", "bad"}, {"y"}).add_initializer("bad", {width, width}, without_first_row(9));
  samples_ = {lopsided()};
  try {
    (void)make(model);
    FAIL() << "it passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_model);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("int8 is refused"), HasSubstr("MatMul y"), HasSubstr("0.98")));
  }
  ModelWriter nothing = of_width();
  nothing.add_node("Relu", {"x"}, {"y"});
  EXPECT_THROW((void)make(nothing), Error);
  samples_.clear();
  EXPECT_THROW((void)make(model), Error);
}

class Variants : public PrecisionGate {
 protected:
  void SetUp() override {
    PrecisionGate::SetUp();
    if (IsSkipped()) return;
    ModelWriter model = of_width();
    model.add_node("MatMul", {"x", "w"}, {"y"}).add_initializer("w", {width, width}, random_floats(weights, 3));
    const GatedVariant made = make(model, {.reduce_range = true});
    options_.provider = "cpu";
    options_.precision_variants = {{.file = target(),
                                    .precision = "int8",
                                    .provider = "cpu",
                                    .weight_bits = 7,
                                    .mean_cosine = made.agreement.mean}};
  }

  LoadOptions options_;
};

TEST_F(Variants, RunOnlyWhereTheyAreAskedFor) {
  const Runtime own(source(), options_);
  EXPECT_EQ(own.verdict().precision, "fp32");
  EXPECT_EQ(own.weights_file(), source());
  EXPECT_THAT(to_line(own.verdict()), HasSubstr(" in fp32"));

  options_.precision = "int8";
  options_.strict = Strictness::nodes;  // nothing that was asked for is missing
  const Runtime asked(source(), options_);
  EXPECT_EQ(asked.verdict().precision, "int8");
  EXPECT_EQ(asked.weights_file(), target());
  EXPECT_THAT(to_line(asked.verdict()), AllOf(HasSubstr(" in int8"), HasSubstr("mean cosine")));
  EXPECT_THAT(to_json(asked.verdict()), HasSubstr(R"("precision":"int8")"));
  EXPECT_LT(agreement({own.infer(samples_[0])}, {asked.infer(samples_[0])}).mean, 1);
  EXPECT_EQ(asked.info().path, source());
}

TEST_F(Variants, AreNotUsedWhereTheProcessorOrTheProviderIsAnother) {
  options_.precision = "int8";
  options_.precision_variants[0].weight_bits = 8;
  const Runtime eight(source(), options_);
  EXPECT_EQ(eight.verdict().precision, adds_byte_products_exactly(Machine::this_one()) ? "int8" : "fp32");

  options_.precision_variants[0].provider = "cuda";
  const Runtime other(source(), options_);
  EXPECT_EQ(other.verdict().precision, "fp32");
  EXPECT_THAT(to_line(other.verdict()), HasSubstr("cpu: precision has no counterpart there"));
  options_.strict = Strictness::provider;
  EXPECT_THROW(Runtime(source(), options_), Error);
}

TEST_F(Variants, OfAnyPrecisionAreForTheFastest) {
  options_.precision = "any";
  try {
    const Runtime runtime(source(), options_);
    FAIL() << "nothing is measured, and any precision will do";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
  }
}

}  // namespace
}  // namespace gpux::evaluation
