#include "recognizer/recognizer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recognizer/known_facts.h"
#include "recognizer/symbolic_tensor.h"

namespace gpux_cpu::encoder {
namespace {

using testing::HasSubstr;

TEST(Recognizer, SaysWhyItFindsNothing) {
  std::string reason;
  EXPECT_FALSE(recognize({}, reason));
  EXPECT_THAT(reason, HasSubstr("no embeddings"));
}

constexpr Dimension texts{Dimension::Kind::batch, 0}, tokens{Dimension::Kind::sequence, 0};

Node node_of(const std::string& type) {
  return {.name = "n", .type = type, .domain = {}, .inputs = {}, .outputs = {"o"}, .attributes = {}};
}

SymbolicTensor scalar(double value, ElementType element_type) {
  return {{}, element_type, literal(value, element_type)};
}

SymbolicTensor of_input(const std::string& name) {
  return {{texts, tokens}, ElementType::int64, input_element(name, {axis_index(0), axis_index(1)})};
}

TEST(Expressions, CalculateWhatIsKnownAndKeepTheRest) {
  const auto added = apply(Operation::add, ElementType::int64, {axis_index(0), literal(2, ElementType::int64)});
  EXPECT_EQ(literal_value(substitute(added, {literal(3, ElementType::int64)})), 5.0);
  EXPECT_TRUE(
      is_axis_index(apply(Operation::subtract, ElementType::int64, {added, literal(2, ElementType::int64)}), 0));
  // Places and sizes are never below 0.
  EXPECT_EQ(
      literal_value(apply(Operation::less, ElementType::boolean, {axis_index(1), literal(0, ElementType::int64)})),
      0.0);
  EXPECT_EQ(literal_value(apply(Operation::equal, ElementType::boolean,
                                {dimension_value(texts), literal(-1, ElementType::int64)})),
            0.0);
  EXPECT_FALSE(literal_value(
      apply(Operation::equal, ElementType::boolean, {dimension_value(texts), literal(1, ElementType::int64)})));
  EXPECT_EQ(
      dimension_of(apply(Operation::multiply, ElementType::int64, {dimension_value(texts), dimension_value(tokens)})),
      (Dimension{Dimension::Kind::tokens, 0}));
  // Whole numbers are divided without their rest, and float32 is rounded after each step.
  EXPECT_EQ(literal_value(apply(Operation::divide, ElementType::int64,
                                {literal(-7, ElementType::int64), literal(2, ElementType::int64)})),
            -3.0);
  EXPECT_EQ(literal_value(apply(Operation::add, ElementType::float32,
                                {literal(16777216, ElementType::float32), literal(1, ElementType::float32)})),
            16777216.0);
}

TEST(Fields, AreSpreadAndReshapedLikeTensors) {
  const std::vector<std::int64_t> values{5, 6, 7};
  const Constant constant{ElementType::int64, {3}, values.data()};
  const SymbolicTensor list = symbolic_tensor_of(constant);
  Node gather = node_of("Gather");
  const SymbolicTensor last = scalar(-1, ElementType::int64);
  EXPECT_EQ(scalar_of(*symbolic_tensor_of(gather, {&list, &last})), 7.0);

  const SymbolicTensor mask = of_input("mask");
  Node unsqueeze = node_of("Unsqueeze");
  unsqueeze.attributes["axes"].integers = {1, 2};
  const SymbolicTensor wide = *symbolic_tensor_of(unsqueeze, {&mask});
  EXPECT_EQ(wide.shape, (Shape{texts, fixed(1), fixed(1), tokens}));
  const SymbolicTensor target = symbolic_tensor_of(Shape{texts, fixed(1), tokens, tokens});
  EXPECT_EQ(symbolic_tensor_of(node_of("Expand"), {&wide, &target})->shape, (Shape{texts, fixed(1), tokens, tokens}));
  // A size that is not known fits only itself.
  const SymbolicTensor other = symbolic_tensor_of(Shape{fixed(3), tokens});
  EXPECT_FALSE(symbolic_tensor_of(node_of("Reshape"), {&mask, &other}));
  EXPECT_FALSE(broadcast({texts}, {tokens}));
}

// texts * tokens rows of one element, and by row and token back again.
TEST(Fields, AreFlattenedAndGatheredByRows) {
  const SymbolicTensor mask = of_input("mask");
  Node flatten = node_of("Flatten");
  flatten.attributes["axis"].integers = {2};
  const SymbolicTensor flat = *symbolic_tensor_of(flatten, {&mask});
  EXPECT_EQ(flat.shape, (Shape{{Dimension::Kind::tokens, 0}, fixed(1)}));

  const auto gathered_by = [&](const ExpressionPointer& length, std::size_t token_axis) {
    const ExpressionPointer scaled = apply(Operation::multiply, ElementType::int64, {axis_index(0), length});
    const SymbolicTensor rows{{texts, fixed(1), fixed(1), tokens},
                              ElementType::int64,
                              apply(Operation::add, ElementType::int64, {axis_index(token_axis), scaled})};
    return *symbolic_tensor_of(node_of("Gather"), {&flat, &rows});
  };
  const ExpressionPointer own = input_element("mask", {axis_index(0), axis_index(3)});
  EXPECT_TRUE(same(*gathered_by(dimension_value(tokens), 3).expression, *own));
  // Another stride, or a token of another axis, is another element.
  EXPECT_FALSE(same(*gathered_by(dimension_value(texts), 3).expression, *own));
  EXPECT_FALSE(same(*gathered_by(dimension_value(tokens), 2).expression, *own));

  const SymbolicTensor all = symbolic_tensor_of(Shape{fixed(-1)}),
                       back = symbolic_tensor_of(Shape{texts, fixed(1), tokens}),
                       turned = symbolic_tensor_of(Shape{tokens, texts});
  const SymbolicTensor row = *symbolic_tensor_of(node_of("Reshape"), {&mask, &all});
  EXPECT_EQ(row.shape, (Shape{{Dimension::Kind::tokens, 0}}));
  EXPECT_TRUE(same(*symbolic_tensor_of(node_of("Reshape"), {&row, &back})->expression,
                   *input_element("mask", {axis_index(0), axis_index(2)})));
  EXPECT_FALSE(same(*symbolic_tensor_of(node_of("Reshape"), {&row, &turned})->expression,
                    *input_element("mask", {axis_index(1), axis_index(0)})));
}

TEST(Fields, AreClippedByInputsAndByAttributes) {
  const SymbolicTensor two = scalar(2, ElementType::float32), five = scalar(5, ElementType::float32),
                       nine = scalar(9, ElementType::float32);
  EXPECT_EQ(scalar_of(*symbolic_tensor_of(node_of("Clip"), {&two, &five, &nine})), 5.0);
  EXPECT_EQ(scalar_of(*symbolic_tensor_of(node_of("Clip"), {&nine, nullptr, &five})), 5.0);
  Node old = node_of("Clip");
  old.version = 6;
  old.attributes["min"].number = 3;
  old.attributes["max"].number = 7;
  EXPECT_EQ(scalar_of(*symbolic_tensor_of(old, {&two})), 3.0);
  EXPECT_EQ(scalar_of(*symbolic_tensor_of(old, {&five})), 5.0);
  EXPECT_EQ(scalar_of(*symbolic_tensor_of(old, {&nine})), 7.0);
}

class Masks : public testing::Test {
 protected:
  [[nodiscard]] SymbolicTensor additive(double hidden) const {
    const SymbolicTensor mask = of_input("mask"), one = scalar(1, ElementType::float32),
                         factor = scalar(hidden, ElementType::float32);
    Node cast = node_of("Cast"), unsqueeze = node_of("Unsqueeze");
    cast.attributes["to"].integers = {1};
    unsqueeze.attributes["axes"].integers = {1, 2};
    const SymbolicTensor number = *symbolic_tensor_of(cast, {&mask});
    const SymbolicTensor inverse = *symbolic_tensor_of(node_of("Sub"), {&one, &number});
    const SymbolicTensor scaled = *symbolic_tensor_of(node_of("Mul"), {&inverse, &factor});
    return *symbolic_tensor_of(unsqueeze, {&scaled});
  }

  Graph graph_;
  KnownFacts facts_{graph_};
};

TEST_F(Masks, AreReadByWhatComesOfOneAndZero) {
  const auto mask = mask_of(additive(-10000), 4, 0, 3, facts_);
  ASSERT_TRUE(mask);
  EXPECT_EQ(mask->source.input, "mask");
  EXPECT_EQ(mask->unmasked, 0);
  EXPECT_EQ(mask->masked, -10000);
}

// 1 where an id is not the one given, by several operators.
TEST_F(Masks, OfIdsAreReadByWhatComesOfEachId) {
  facts_.input_ids = "ids";
  facts_.vocabulary_size = 100;
  const SymbolicTensor ids = of_input("ids");
  const auto read = [&](const std::optional<SymbolicTensor>& tensor) {
    return tensor ? mask_of(*tensor, 2, 0, 1, facts_) : std::nullopt;
  };
  const SymbolicTensor three = scalar(3, ElementType::int64), zero = scalar(0, ElementType::int64);
  const SymbolicTensor is_three = *symbolic_tensor_of(node_of("Equal"), {&ids, &three});
  const auto without_three = read(symbolic_tensor_of(node_of("Not"), {&is_three}));
  ASSERT_TRUE(without_three);
  EXPECT_EQ(without_three->source, (MaskSource{"ids", 3}));
  EXPECT_EQ(without_three->unmasked, 1);
  EXPECT_EQ(without_three->masked, 0);
  const auto without_zero = read(symbolic_tensor_of(node_of("Greater"), {&ids, &zero}));
  ASSERT_TRUE(without_zero);
  EXPECT_EQ(without_zero->source, (MaskSource{"ids", 0}));
  // More than one id, or the ids themselves, are no mask.
  EXPECT_FALSE(read(symbolic_tensor_of(node_of("Greater"), {&ids, &three})));
  EXPECT_FALSE(read(ids));
}

TEST_F(Masks, OverQueriesAreNone) {
  const SymbolicTensor mask = additive(-10000);
  Node turn = node_of("Transpose");
  turn.attributes["perm"].integers = {0, 1, 3, 2};
  const SymbolicTensor turned = *symbolic_tensor_of(turn, {&mask});
  EXPECT_FALSE(mask_of(turned, 4, 0, 3, facts_));
}

TEST_F(Masks, OfTheTokenBesideAreNone) {
  SymbolicTensor shifted = additive(-10000);
  shifted.expression = substitute(
      shifted.expression, {nullptr, nullptr, nullptr,
                           apply(Operation::add, ElementType::int64, {axis_index(3), literal(1, ElementType::int64)})});
  EXPECT_FALSE(mask_of(shifted, 4, 0, 3, facts_));
}

}  // namespace
}  // namespace gpux_cpu::encoder
