// Products and lookups of blocks with minimums, as gpux's importer writes them, and others that look alike.
#include "recognizer/matrices.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace gpux_cpu::decoder {
namespace {

constexpr std::int64_t rows = 6, columns = 64, block_size = 32, blocks = columns / block_size;

/// A graph, and the memory of its constants.
class MadeGraph {
 public:
  MadeGraph() {
    bytes("w", {rows, blocks, block_size / 2});
    bytes("w2", {rows, columns / 2});
    bytes("points", {rows, blocks / 2});
    floats("scales", {rows, blocks});
    floats("minimums", {blocks, rows});
    integers("to_blocks", {0, 0, blocks, block_size});
    integers("to_row", {0, 0, columns});
    integers("last", {-1});
    node("com.microsoft.MatMulNBits", {"x", "w", "scales", "points"}, "product",
         {{"K", columns}, {"N", rows}, {"bits", 4}, {"block_size", block_size}, {"accuracy_level", 4}});
    node("Reshape", {"x", "to_blocks"}, "x_blocks");
    node("ReduceSum", {"x_blocks", "last"}, "sums", {{"keepdims", 0}});
    node("MatMul", {"sums", "minimums"}, "taken");
    node("Sub", {"product", "taken"}, "y");
    node("com.microsoft.GatherBlockQuantized", {"w2", "ids", "scales", "points"}, "gathered",
         {{"bits", 4}, {"block_size", block_size}, {"quantize_axis", 1}});
    node("Reshape", {"gathered", "to_blocks"}, "gathered_blocks");
    node("Gather", {"minimums", "ids"}, "of_rows", {{"axis", 1}});
    node("Transpose", {"of_rows"}, "turned");
    graph_.nodes.back().attributes["perm"].integers = {1, 2, 0};
    node("Unsqueeze", {"turned", "last"}, "spread");
    node("Sub", {"gathered_blocks", "spread"}, "less");
    node("Reshape", {"less", "to_row"}, "token");
  }

  [[nodiscard]] Node& of(const std::string& output) {
    for (Node& node : graph_.nodes) {
      if (node.outputs.front() == output) return node;
    }
    throw std::logic_error(output);
  }

  void integers(const std::string& name, std::vector<std::int64_t> values) {
    std::vector<std::int64_t>& kept = integers_.emplace_back(std::move(values));
    graph_.constants[name] = {
        .element_type = ElementType::int64, .shape = {static_cast<std::int64_t>(kept.size())}, .data = kept.data()};
  }

  void floats(const std::string& name, const std::vector<std::int64_t>& shape) {
    constant(name, ElementType::float32, shape);
  }

  [[nodiscard]] const Graph& graph() const { return graph_; }

  void node(const std::string& type, std::vector<std::string> inputs, const std::string& output,
            const std::vector<std::pair<std::string, std::int64_t>>& attributes = {}) {
    const std::size_t dot = type.rfind('.');
    Node made;
    made.domain = dot == std::string::npos ? "" : type.substr(0, dot);
    made.type = dot == std::string::npos ? type : type.substr(dot + 1);
    made.name = output;
    made.inputs = std::move(inputs);
    made.outputs = {output};
    for (const auto& [name, value] : attributes) made.attributes[name].integers = {value};
    graph_.nodes.push_back(std::move(made));
  }

  /// `value`: what a node of that type makes of the constant `small`, a matrix.
  void widened(const std::string& value, const std::string& small, ElementType type, const std::string& widening) {
    constant(small, type, {rows, columns});
    node(widening, {small}, value, {{"to", 1}});
  }

 private:
  void bytes(const std::string& name, const std::vector<std::int64_t>& shape) {
    constant(name, ElementType::uint8, shape);
  }

  void constant(const std::string& name, ElementType type, const std::vector<std::int64_t>& shape) {
    std::vector<float>& kept = floats_.emplace_back(1024);
    graph_.constants[name] = {.element_type = type, .shape = shape, .data = kept.data()};
  }

  Graph graph_;
  std::deque<std::vector<std::int64_t>> integers_;
  std::deque<std::vector<float>> floats_;
};

using Change = std::function<void(MadeGraph&)>;

bool takes_product(const Change& change) {
  MadeGraph made;
  change(made);
  GraphIndex index(made.graph());
  const auto product = matrix_product(index, "y");
  if (!product) return false;
  EXPECT_EQ(product->input, "x");
  EXPECT_EQ(product->matrix.minimums, index.constant("minimums"));
  for (const char* output : {"product", "x_blocks", "sums", "taken", "y"}) {
    EXPECT_TRUE(index.is_understood(made.of(output))) << output;
  }
  return true;
}

bool takes_lookup(const Change& change) {
  MadeGraph made;
  change(made);
  GraphIndex index(made.graph());
  const auto lookup = token_lookup(index, "token");
  if (!lookup) return false;
  EXPECT_EQ(lookup->input_ids, "ids");
  EXPECT_EQ(lookup->table.minimums, index.constant("minimums"));
  for (const char* output : {"gathered", "gathered_blocks", "of_rows", "turned", "spread", "less", "token"}) {
    EXPECT_TRUE(index.is_understood(made.of(output))) << output;
  }
  return true;
}

TEST(Matrices, WithMinimumsAreTakenWithTheSumsOfTheirInput) {
  EXPECT_TRUE(takes_product([](MadeGraph&) {}));
  const std::vector<Change> others{[](MadeGraph& made) { made.of("x_blocks").inputs[0] = "other"; },
                                   [](MadeGraph& made) { std::swap(made.of("y").inputs[0], made.of("y").inputs[1]); },
                                   [](MadeGraph& made) { made.of("y").type = "Add"; },
                                   [](MadeGraph& made) { made.of("sums").attributes["keepdims"].integers = {1}; },
                                   [](MadeGraph& made) { made.integers("last", {1}); },
                                   [](MadeGraph& made) {
                                     made.integers("to_blocks", {0, 0, 2 * blocks, block_size / 2});
                                   },
                                   [](MadeGraph& made) {
                                     made.integers("to_blocks", {1, 0, blocks, block_size});
                                   },
                                   [](MadeGraph& made) {
                                     made.floats("minimums", {rows, blocks});
                                   },
                                   [](MadeGraph& made) {
                                     made.floats("minimums", {2 * blocks, rows});
                                   }};
  for (std::size_t i = 0; i < others.size(); ++i) EXPECT_FALSE(takes_product(others[i])) << i;
}

TEST(Matrices, WithMinimumsAreLookedUpWithThoseOfTheSameRows) {
  EXPECT_TRUE(takes_lookup([](MadeGraph&) {}));
  const std::vector<Change> others{
      [](MadeGraph& made) { made.of("of_rows").inputs[1] = "other"; },
      [](MadeGraph& made) { made.of("of_rows").attributes["axis"].integers = {0}; },
      [](MadeGraph& made) {
        made.of("turned").attributes["perm"].integers = {0, 1, 2};
      },
      [](MadeGraph& made) { std::swap(made.of("less").inputs[0], made.of("less").inputs[1]); },
      [](MadeGraph& made) { made.integers("last", {0}); },
      [](MadeGraph& made) {
        made.integers("to_row", {0, 0, -1});
      },
      [](MadeGraph& made) {
        made.floats("minimums", {1, rows});
      }};
  for (std::size_t i = 0; i < others.size(); ++i) EXPECT_FALSE(takes_lookup(others[i])) << i;
}

// What a Cast or the function makes float32 of stays in 16 bits; so does a table of rows.
TEST(Matrices, OfSmallFloatsAreTakenAsTheyAre) {
  for (const ElementType type : {ElementType::float16, ElementType::bfloat16}) {
    for (const char* widening : {"Cast", "gpux.small_weights.Widen"}) {
      MadeGraph made;
      made.widened("wide", "small", type, widening);
      made.node("MatMul", {"x", "wide"}, "product_of_floats");
      made.node("Gather", {"wide", "ids"}, "rows_of_floats");
      GraphIndex index(made.graph());
      const auto product = matrix_product(index, "product_of_floats");
      const auto lookup = token_lookup(index, "rows_of_floats");
      ASSERT_TRUE(product && lookup) << widening;
      const Constant* const small = &made.graph().constants.at("small");
      EXPECT_EQ(product->matrix.weights, small);
      EXPECT_EQ(lookup->table.weights, small);
      EXPECT_TRUE(index.is_understood(made.of("wide")));
      // What else reads them, such as positions, has them in 32 bits.
      const Constant* const floats = index.constant("wide");
      ASSERT_NE(floats, nullptr);
      EXPECT_EQ(floats->element_type, ElementType::float32);
    }
  }
}

// A product of float16 itself rounds its sums otherwise.
TEST(Matrices, OfSmallFloatsThatNothingWidensAreNone) {
  MadeGraph made;
  made.widened("wide", "small", ElementType::float16, "gpux.other.Widen");
  made.node("MatMul", {"x", "small"}, "of_small");
  made.node("MatMul", {"x", "wide"}, "of_another_function");
  GraphIndex index(made.graph());
  EXPECT_FALSE(matrix_product(index, "of_small"));
  EXPECT_FALSE(matrix_product(index, "of_another_function"));
}

}  // namespace
}  // namespace gpux_cpu::decoder
