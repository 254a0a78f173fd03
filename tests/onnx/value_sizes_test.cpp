#include "onnx/value_sizes.h"

#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx/graph_writer.h"

namespace gpux::onnx {
namespace {

using testing::ElementsAre;

constexpr std::int64_t batch = -1, sequence = -2;  // symbols of the inputs: in the order of their names

/// A graph with x, float32[batch, sequence, 8], ids, int64[batch, sequence], and y, float32[batch, length, 8].
class ValueSizes : public testing::Test {
 protected:
  ValueSizes() {
    const WrittenSize eight = std::int64_t{8};
    graph_.input("x", ElementType::float32, std::vector<WrittenSize>{"batch", "sequence", eight});
    graph_.input("ids", ElementType::int64, std::vector<WrittenSize>{"batch", "sequence"});
    graph_.input("y", ElementType::float32, std::vector<WrittenSize>{"batch", "length", eight});
  }

  std::string list(const Sizes& elements) { return graph_.integers(elements); }

  std::string floats(const Shape& shape) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    return graph_.floats("floats." + std::to_string(constants_++), std::vector<float>(count), shape);
  }

  /// Empty where nothing is known.
  Sizes of(const std::string& value) {
    const std::string& fields = graph_.fields();
    std::vector<NodeText> nodes;
    for_each_node(Message(fields), [&](NodeText node) { nodes.push_back(std::move(node)); });
    const KnownValues known = known_values(Message(fields), nodes);
    const auto found = known.sizes.find(value);
    return found == known.sizes.end() ? Sizes() : found->second;
  }

  GraphWriter graph_{"sizes"};
  std::size_t constants_ = 0;
};

TEST_F(ValueSizes, AreThoseOfInputsByName) {
  EXPECT_THAT(of("x"), ElementsAre(batch, sequence, 8));
  EXPECT_THAT(of("ids"), ElementsAre(batch, sequence));
  EXPECT_EQ(of("y")[0], batch);
  EXPECT_NE(of("y")[1], sequence);
}

TEST_F(ValueSizes, FollowOperators) {
  const auto node = [&](const char* type, const std::vector<std::string>& inputs, const Attributes& attributes = {}) {
    return of(graph_.node(type, inputs, attributes));
  };
  const std::int64_t one = 1;
  EXPECT_THAT(node("Relu", {"x"}), ElementsAre(batch, sequence, 8));
  EXPECT_THAT(node("MatMul", {"x", floats({8, 3})}), ElementsAre(batch, sequence, 3));
  EXPECT_THAT(node("Gather", {floats({9, 8}), "ids"}), ElementsAre(batch, sequence, 8));
  EXPECT_THAT(node("Transpose", {"x"}, {{"perm", Sizes{2, 0, 1}}}), ElementsAre(8, batch, sequence));
  EXPECT_THAT(node("Reshape", {"x", list({0, 0, 2, 4})}), ElementsAre(batch, sequence, 2, 4));
  EXPECT_THAT(node("Reshape", {"x", list({0, 0, -1, 2})}), ElementsAre(batch, sequence, 4, 2));
  EXPECT_THAT(node("Reshape", {"x", list({0, -1, 8})}), ElementsAre(batch, sequence, 8));
  EXPECT_THAT(node("Unsqueeze", {"x", list({1})}), ElementsAre(batch, 1, sequence, 8));
  EXPECT_THAT(node("Squeeze", {floats({2, 1, 3}), list({1})}), ElementsAre(2, 3));
  EXPECT_THAT(node("Expand", {"x", list({3, 1, 1, 1})}), ElementsAre(3, batch, sequence, 8));
  EXPECT_THAT(node("Concat", {"x", "x"}, {{"axis", -one}}), ElementsAre(batch, sequence, 16));
  EXPECT_THAT(node("Slice", {"x", list({2}), list({-1}), list({2})}), ElementsAre(batch, sequence, 5));
  EXPECT_THAT(node("ReduceMean", {"x", list({-1})}), ElementsAre(batch, sequence, 1));
  EXPECT_THAT(node("Add", {"x", floats({8})}), ElementsAre(batch, sequence, 8));
  EXPECT_THAT(node("Mul", {floats({4, 1, 1, 1}), "x"}), ElementsAre(4, batch, sequence, 8));
}

TEST_F(ValueSizes, AreNotKnownOfOtherOperators) {
  EXPECT_THAT(of(graph_.node("NonZero", {"x"})), testing::IsEmpty());
  EXPECT_THAT(of(graph_.node("Add", {graph_.node("NonZero", {"x"}), "x"})), testing::IsEmpty());
  EXPECT_THAT(of(graph_.node("Reshape", {"x", "ids"})), testing::IsEmpty());
  EXPECT_THAT(of(graph_.node("Reshape", {"x", list({0, 0, 8})}, {{"allowzero", std::int64_t{1}}})), testing::IsEmpty());
}

// A sum of values that may differ in a size has another size than both, and always the same.
TEST_F(ValueSizes, OfTwoSymbolsAreTheirOwn) {
  const std::string sum = graph_.node("Add", {"x", "y"}), other = graph_.node("Add", {"y", "x"});
  const std::int64_t joined = of(sum)[1];
  EXPECT_LT(joined, 0);
  EXPECT_NE(joined, sequence);
  EXPECT_NE(joined, of("y")[1]);
  EXPECT_EQ(of(other)[1], joined);
  EXPECT_EQ(of(graph_.node("Add", {sum, "x"}))[1], joined);
}

TEST_F(ValueSizes, OfARangeUpToASizeAreThatSize) {
  const std::string length = graph_.node("Shape", {"ids"}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}});
  const std::string count = graph_.node("Squeeze", {length, list({0})});
  const std::string zero = graph_.integer(0), one = graph_.integer(1);
  EXPECT_THAT(of(length), ElementsAre(1));
  EXPECT_THAT(of(graph_.node("Range", {zero, count, one})), ElementsAre(sequence));
  EXPECT_THAT(of(graph_.node("Range", {one, count, one})), ElementsAre(testing::Lt(sequence)));
}

// What callers may replace is no constant.
TEST_F(ValueSizes, AreNotReadFromInitializersThatAreInputs) {
  const std::string sizes = list({0, 0, 2, 4});
  graph_.input(sizes, ElementType::int64, std::vector<WrittenSize>{std::int64_t{4}});
  EXPECT_THAT(of(graph_.node("Reshape", {"x", sizes})), testing::IsEmpty());
}

}  // namespace
}  // namespace gpux::onnx
