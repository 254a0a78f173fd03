#include "runtime/loading/rewritten_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "cpu_runtime.h"
#include "gpux/model_inspector.h"
#include "onnx/graph_writer.h"
#include "onnx/stored_caches.h"
#include "runtime/loading/fusion_trial.h"

namespace gpux::runtime {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(FusionTrial, ComparesUpToRoundingOfSmallFloats) {
  const std::vector<float> expected{1, -2, 0.5F};
  EXPECT_EQ(difference_of(expected, expected), "");
  EXPECT_EQ(difference_of(std::vector<float>{1.01F, -2.01F, 0.49F}, expected), "");
  EXPECT_EQ(difference_of(std::vector<float>{1, -2.25F, 0.5F}, expected), "an example of it is wrong by 0.25");
  EXPECT_EQ(difference_of(std::vector<float>{1, -2}, expected), "an example of it has a result of another size");
  const std::vector<float> no_number{1, std::numeric_limits<float>::quiet_NaN(), 0.5F};
  EXPECT_EQ(difference_of(no_number, expected), "an example of it gives no numbers");
}

/// Sessions on the CPU, whatever the plan says: what is decided is what a load with that plan decides.
class RewrittenModels : public CpuRuntime {
 protected:
  void SetUp() override {
    CpuRuntime::SetUp();
    if (IsSkipped()) return;
    (void)Runtime(test_model("multiply"), {.provider = "cpu"});  // opens ONNX Runtime
    const std::array<onnx::WrittenSize, 3> sizes{"batch", "sequence", std::int64_t{4}};
    onnx::GraphWriter graph("tokens");
    graph.input("vectors", ElementType::float32, sizes);
    graph.input("attention_mask", ElementType::int64, std::span(sizes).first(2));
    const std::string weight = graph.floats("weight", std::vector<float>{1, 2, 3, 4}, {4});
    const std::string sum = graph.node("Add", {"vectors", graph.node("Neg", {"vectors"})});
    graph.node("LayerNormalization", {sum, weight}, {}, "last_hidden_state");
    graph.output("last_hidden_state", ElementType::float32, sizes);
    graph.write(file_, 17, 8);
    info_ = ModelInspector::inspect(file_);
  }

  static Plan plan(const std::string& provider) {
    Plan plan;
    plan.candidates.push_back({.id = provider, .append = {}, .library = {}});
    ProviderAttempt attempt;
    attempt.id = provider;
    attempt.devices.emplace_back().kind = "gpu";
    plan.verdict.tried.push_back(std::move(attempt));
    return plan;
  }

  LoadOptions pooling() const {
    LoadOptions options;
    options.pooled_output = PooledOutput{.token_vectors = "last_hidden_state",
                                         .attention_mask = "attention_mask",
                                         .poolings = {Pooling::mean},
                                         .normalizes = false};
    return options;
  }

  std::optional<std::string> content(RewrittenModel& model, const Plan& plan, bool is_optimized = false) {
    return model.of(file_, info_, plan, settings_, is_optimized);
  }

  static std::vector<Message> notes(const RewrittenModel& model, const Plan& plan) {
    Verdict verdict;
    model.tell(plan, verdict);
    return verdict.notes;
  }

  test::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "tokens.onnx";
  ModelInfo info_;
  ort::SessionSettings settings_;
};

constexpr const char* fused = "nodes are fused: 1 SkipLayerNormalization";
constexpr const char* pooled = "texts are pooled in the graph: the model gives one vector per text";

TEST_F(RewrittenModels, AreFusedForProvidersThatHaveTheOperators) {
  const LoadOptions options;
  for (const char* provider : {"cuda", "webgpu"}) {
    RewrittenModel model(options, info_.signature);
    const auto made = content(model, plan(provider));
    ASSERT_TRUE(made.has_value()) << provider;
    EXPECT_THAT(notes(model, plan(provider)), ElementsAre(fused));
    EXPECT_EQ(model.identity(), "fused 1 SkipLayerNormalization");
    EXPECT_NO_THROW((void)session_of_content(*made, file_, settings_));
  }
  for (const char* provider : {"tensorrt", "openvino", "encoder", "example"}) {
    RewrittenModel model(options, info_.signature);
    EXPECT_FALSE(content(model, plan(provider)).has_value()) << provider;
    EXPECT_THAT(notes(model, plan(provider)), IsEmpty());
    EXPECT_EQ(model.identity(), "");
  }
  RewrittenModel model(options, info_.signature);
  EXPECT_FALSE(content(model, Plan()).has_value());  // the CPU alone
}

TEST_F(RewrittenModels, AreFusedWhereTheGraphIsOptimizedNow) {
  for (const auto& [level, is_fused] : {std::pair{Optimization::disabled, false},
                                        {Optimization::basic, false},
                                        {Optimization::extended, true},
                                        {Optimization::all, true}}) {
    LoadOptions options;
    options.optimization = level;
    RewrittenModel model(options, info_.signature);
    EXPECT_EQ(content(model, plan("webgpu")).has_value(), is_fused) << to_string(level);
  }
  LoadOptions options;
  RewrittenModel optimized(options, info_.signature);
  EXPECT_FALSE(content(optimized, plan("webgpu"), true).has_value());
  options.optimized_model = folder_.path() / "written.onnx";
  RewrittenModel written(options, info_.signature);
  EXPECT_FALSE(content(written, plan("webgpu")).has_value());
}

TEST_F(RewrittenModels, ArePooledToo) {
  const LoadOptions options = pooling();
  RewrittenModel model(options, info_.signature);
  const auto made = content(model, plan("webgpu"));
  ASSERT_TRUE(made.has_value());
  EXPECT_TRUE(model.is_pooled());
  EXPECT_THAT(notes(model, plan("webgpu")), ElementsAre(fused, pooled));
  EXPECT_EQ(model.identity(), "fused 1 SkipLayerNormalization; pooled in the graph");
  EXPECT_THAT(session_of_content(*made, file_, settings_).output_names(),
              ElementsAre("last_hidden_state", "sentence_embedding"));
  RewrittenModel other(options, info_.signature);
  EXPECT_TRUE(content(other, plan("example")).has_value());
  EXPECT_EQ(other.identity(), "pooled in the graph");
}

TEST_F(RewrittenModels, GiveUpOneChangeAfterTheOther) {
  const LoadOptions options = pooling();
  const Plan webgpu = plan("webgpu");
  RewrittenModel model(options, info_.signature);
  ASSERT_TRUE(content(model, webgpu).has_value());
  EXPECT_TRUE(model.give_up("no kernel"));
  ASSERT_TRUE(content(model, webgpu).has_value());
  EXPECT_EQ(model.identity(), "pooled in the graph");
  EXPECT_TRUE(model.give_up("no memory"));
  EXPECT_FALSE(content(model, webgpu).has_value());
  EXPECT_FALSE(model.give_up("no device"));
  EXPECT_THAT(notes(model, webgpu), Contains("norms are not fused: no kernel"));
  EXPECT_THAT(notes(model, webgpu), Contains("texts are pooled on the host, from a vector per token: no memory"));
  EXPECT_THAT(notes(model, Plan()), IsEmpty());  // nothing is wrong with a provider that does not run
}

TEST_F(RewrittenModels, AreNotFusedWhereTheExampleCannotRun) {
  const LoadOptions options;
  settings_.providers.push_back(
      {.way = ort::ProviderAppend::Way::by_name, .name = "Nobody", .devices = {}, .options = {}});
  RewrittenModel model(options, info_.signature);
  EXPECT_FALSE(content(model, plan("webgpu")).has_value());
  EXPECT_THAT(notes(model, plan("webgpu")), ElementsAre(StartsWith("norms are not fused: ")));
}

// The CPU's operators are right, in each form that models have.
TEST_F(RewrittenModels, AreTriedInTheirForms) {
  const std::set<onnx::AttentionForm> attentions{{2, 4, 0, true}, {2, 4, 1, false}, {3, 8, 3, true}, {2, 4, 1, true}};
  const std::set<onnx::NormForm> norms{
      {8, false, true, true}, {8, false, false, true}, {16, true, false, true}, {16, true, false, false}};
  for (const bool is_float16 : {false, true}) {
    const FusionDefects defects =
        try_fusion({.content = {}, .operators = {}, .attentions = attentions, .norms = norms}, is_float16, settings_);
    EXPECT_EQ(defects.attention, "") << is_float16;
    EXPECT_EQ(defects.norms, "") << is_float16;
  }
}

// The decoder provider gets weights of 16 bits as they are; where it does not take them, they are what they were.
TEST_F(RewrittenModels, KeepWeightsOf16BitsForTheDecoderProvider) {
  const std::array<onnx::WrittenSize, 2> sizes{std::int64_t{1}, std::int64_t{2}};
  onnx::GraphWriter graph("product");
  graph.input("x", ElementType::float32, sizes);
  const auto bits = [] { return std::vector<std::uint16_t>{0x3F80, 0x4000, 0xC040, 0x3E80}; };  // 1, 2, -3, 0.25
  const std::string small = graph.constant("w", ElementType::bfloat16, {2, 2}, bits);
  const std::string wide = graph.node("Cast", {small}, {{"to", static_cast<std::int64_t>(ElementType::float32)}});
  graph.node("MatMul", {"x", wide}, {}, "y");
  graph.output("y", ElementType::float32, sizes);
  graph.write(file_, 17, 8);
  info_ = ModelInspector::inspect(file_);
  const LoadOptions options;
  RewrittenModel model(options, info_.signature);
  EXPECT_FALSE(content(model, plan("decoder")).has_value());  // it has no attention with a cache
  info_.operators["com.microsoft::GroupQueryAttention"] = 1;
  for (const char* provider : {"cpu", "encoder", "cuda"}) {
    EXPECT_FALSE(content(model, plan(provider)).has_value()) << provider;
  }
  const auto made = content(model, plan("decoder"));
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(model.identity(), "weights in 16 bits");
  const ort::Session session = session_of_content(*made, file_, settings_);
  const NamedValues results = session.run({{"x", tensor<float>({1, 2}, {10, 1})}}, {0});
  EXPECT_THAT(results[0].second.tensor()->as<float>(), ElementsAre(7, 20.25F));
  write_file_atomically(folder_.path() / "own.onnx", *made);
  EXPECT_THROW(Runtime(folder_.path() / "own.onnx", {.provider = "cpu"}), Error);
  EXPECT_TRUE(model.give_up("no session"));
  EXPECT_FALSE(content(model, plan("decoder")).has_value());
  EXPECT_FALSE(model.give_up("no session"));
}

// A model of one attention whose rows of keys and values are int8: what its functions are for providers that have them
// not.
TEST_F(RewrittenModels, ReadAndMakeRowsOfInt8) {
  constexpr std::int64_t head_size = 64, blocks = 2, row_size = head_size + 2 * blocks, past = 9, tokens = 5;
  onnx::GraphWriter graph("attention");
  const auto cache = [&](const char* length) {
    return std::array<onnx::WrittenSize, 4>{std::int64_t{1}, std::int64_t{1}, length, head_size};
  };
  const auto input = [&](const char* name) {
    graph.input(name, ElementType::float32, std::array<onnx::WrittenSize, 3>{std::int64_t{1}, "sequence", head_size});
  };
  for (const char* name : {"query", "key", "value"}) input(name);
  for (const char* name : {"past.key", "past.value"}) graph.input(name, ElementType::float32, cache("past"));
  graph.input("last_positions", ElementType::int32, std::array<onnx::WrittenSize, 1>{std::int64_t{1}});
  graph.input("total_length", ElementType::int32, {});
  graph.contributed_node("GroupQueryAttention",
                         {"query", "key", "value", "past.key", "past.value", "last_positions", "total_length"},
                         {{"num_heads", std::int64_t{1}}, {"kv_num_heads", std::int64_t{1}}},
                         {"attended", "present.key", "present.value"});
  const std::string result = graph.node("Identity", {"attended"});
  graph.output(result, ElementType::float32, std::array<onnx::WrittenSize, 3>{std::int64_t{1}, "sequence", head_size});
  for (const char* name : {"present.key", "present.value"}) graph.output(name, ElementType::float32, cache("total"));
  const auto changed = onnx::with_stored_caches(graph.model(17, 8), onnx::CacheUse::int8_stored);
  ASSERT_TRUE(changed.has_value());

  std::mt19937 random(1);
  const auto number = [&](int first, int last) { return std::uniform_int_distribution<>(first, last)(random); };
  const auto rows = [&] {
    Tensor made = Tensor::allocate(ElementType::int8, {1, 1, past + tokens, row_size});  // room for those of the run
    const std::span<std::int8_t> bytes = made.mutable_as<std::int8_t>();
    std::ranges::fill(bytes, std::int8_t{0});
    for (std::size_t row = 0; row < past; ++row) {
      const std::span<std::int8_t> own = bytes.subspan(row * row_size, row_size);
      for (std::int8_t& code : own.first(head_size)) code = static_cast<std::int8_t>(number(-127, 127));
      for (std::size_t block = 0; block < blocks; ++block) {
        own[block * 32 + row] = row % 2 == 0 ? 127 : -127;
        own[head_size + block] = static_cast<std::int8_t>(number(-20, 20));
        own[head_size + blocks + block] = static_cast<std::int8_t>(number(0, 127));
      }
    }
    return made;
  };
  const auto values = [&](float spread) {
    Tensor made = Tensor::allocate(ElementType::float32, {1, tokens, head_size});
    std::normal_distribution<float> normal(0, spread);
    for (float& value : made.mutable_as<float>()) value = normal(random);
    return made;
  };
  const NamedValues inputs{{"query", values(1)},
                           {"key", values(1e-6F)},
                           {"value", values(1e6F)},
                           {"past.key", rows()},
                           {"past.value", rows()},
                           {"last_positions", tensor<std::int32_t>({1}, {past + tokens - 1})},
                           {"total_length", tensor<std::int32_t>({}, {past + tokens})}};
  write_file_atomically(file_, changed->content);
  EXPECT_THROW(Runtime(file_, {.provider = "cpu"}), Error);  // in a file they may compute anything
  const ort::Session session = session_of_content(changed->content, file_, settings_);
  const NamedValues results = session.run(inputs, {0, 1, 2});
  for (const std::size_t part : {0, 1}) {
    const Tensor& given = *inputs[3 + part].second.tensor();
    const Tensor& made = *results[1 + part].second.tensor();
    ASSERT_EQ(made.shape(), (Shape{1, 1, past + tokens, row_size}));
    const std::span<const std::int8_t> bytes = made.as<std::int8_t>();
    EXPECT_TRUE(std::ranges::equal(bytes.first(past * row_size), given.as<std::int8_t>().first(past * row_size)));
    const std::span<const float> expected = inputs[1 + part].second.tensor()->as<float>();
    for (std::size_t i = 0; i < tokens * head_size; ++i) {
      const std::span<const std::int8_t> own = bytes.subspan((past + i / head_size) * row_size, row_size);
      const std::size_t element = i % head_size, block = element / 32;
      const float scale =
          std::ldexp(1 + static_cast<float>(own[head_size + blocks + block]) / 128, own[head_size + block]);
      const bool is_largest = std::abs(own[element]) == 127;
      EXPECT_NEAR(static_cast<float>(own[element]) * scale, expected[i], scale * (is_largest ? 1 : 0.5001F));
    }
  }
  EXPECT_TRUE(
      std::ranges::all_of(results[0].second.tensor()->as<float>(), [](float one) { return std::isfinite(one); }));
}

}  // namespace
}  // namespace gpux::runtime
