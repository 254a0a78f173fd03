#include "encoder/shared_encoders.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "recognizer/graph_digest.h"

namespace gpux_cpu::encoder {
namespace {

class Shared : public testing::Test {
 protected:
  [[nodiscard]] Graph graph() const {
    Graph made;
    made.nodes.push_back(
        {.name = "any",
         .type = "MatMul",
         .domain = "",
         .version = 13,
         .inputs = {"a", "w"},
         .outputs = {"b"},
         .attributes = {{"axis", {.integers = {1}, .number = 0, .text = {}, .element_type = ElementType::float32}}}});
    made.constants["w"] = {ElementType::float32, {2, 2}, weights_.data()};
    made.inputs = {{"a", {-1, -1}}};
    made.outputs = {"b"};
    return made;
  }

  std::shared_ptr<const Encoder> get(const Graph& graph, Precision precision = Precision::fp32) {
    return all_.get(digest_of(graph, precision), [&] {
      ++made_;
      Weights weights;
      weights.hidden_size = weights.num_heads = 1;
      return std::make_unique<Encoder>(std::move(weights), kernels());
    });
  }

  std::vector<float> weights_{1, 2, 3, 4};
  SharedEncoders all_;
  int made_ = 0;
};

TEST_F(Shared, AreOneForEqualGraphsWhileTheyAreInUse) {
  auto first = get(graph());
  const std::vector<float> copy = weights_;
  Graph again = graph();
  again.nodes.front().name = "another";  // that nothing depends on
  again.constants["w"].data = copy.data();
  EXPECT_EQ(get(again), first);
  EXPECT_EQ(made_, 1);
  first.reset();
  (void)get(again);
  EXPECT_EQ(made_, 2);
}

TEST_F(Shared, AreOthersWhereAnythingDiffers) {
  const auto first = get(graph());
  EXPECT_NE(get(graph(), Precision::int8), first);
  std::vector<Graph> others(6, graph());
  const std::vector<float> changed{1, 2, 3, 5};
  others[0].constants["w"].data = changed.data();
  others[1].constants["w"].shape = {4, 1};
  others[2].nodes.front().attributes["axis"].integers = {2};
  others[3].nodes.front().inputs = {"w", "a"};
  others[4].inputs.front().shape = {-1, 8};
  others[5].outputs.clear();
  for (const Graph& other : others) EXPECT_NE(get(other), first);
}

}  // namespace
}  // namespace gpux_cpu::encoder
