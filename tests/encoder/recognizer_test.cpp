#include "recognizer/recognizer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recognizer/known_facts.h"
#include "recognizer/symbolic_tensor.h"

namespace gpux_encoder {
namespace {

using testing::HasSubstr;

TEST(Recognizer, SaysWhyItFindsNothing) {
  std::string reason;
  EXPECT_FALSE(recognize({}, reason));
  EXPECT_THAT(reason, HasSubstr("no embeddings"));
}

constexpr Size texts{Size::Kind::batch, 0}, tokens{Size::Kind::sequence, 0};

Size number_size(std::int64_t number) {
  return {Size::Kind::number, number};
}

Node node_of(const std::string& type) {
  return {.name = "n", .type = type, .domain = {}, .inputs = {}, .outputs = {"o"}, .attributes = {}};
}

Field scalar(double value, Element element) {
  return {{}, element, number(value, element)};
}

Field of_input(const std::string& name) {
  return {{texts, tokens}, Element::int64, input_at(name, {place(0), place(1)})};
}

TEST(Expressions, CalculateWhatIsKnownAndKeepTheRest) {
  const auto added = apply(Operation::add, Element::int64, {place(0), number(2, Element::int64)});
  EXPECT_EQ(number_of(substitute(added, {number(3, Element::int64)})), 5.0);
  EXPECT_TRUE(is_place(apply(Operation::subtract, Element::int64, {added, number(2, Element::int64)}), 0));
  // Places and sizes are never below 0.
  EXPECT_EQ(number_of(apply(Operation::less, Element::boolean, {place(1), number(0, Element::int64)})), 0.0);
  EXPECT_EQ(number_of(apply(Operation::equal, Element::boolean, {size_of_batch(texts), number(-1, Element::int64)})),
            0.0);
  EXPECT_FALSE(number_of(apply(Operation::equal, Element::boolean, {size_of_batch(texts), number(1, Element::int64)})));
  EXPECT_EQ(size_of(apply(Operation::multiply, Element::int64, {size_of_batch(texts), size_of_batch(tokens)})),
            (Size{Size::Kind::rows, 0}));
  // Whole numbers are divided without their rest, and float32 is rounded after each step.
  EXPECT_EQ(
      number_of(apply(Operation::divide, Element::int64, {number(-7, Element::int64), number(2, Element::int64)})),
      -3.0);
  EXPECT_EQ(number_of(apply(Operation::add, Element::float32,
                            {number(16777216, Element::float32), number(1, Element::float32)})),
            16777216.0);
}

TEST(Fields, AreSpreadAndReshapedLikeTensors) {
  const std::vector<std::int64_t> values{5, 6, 7};
  const Constant constant{Element::int64, {3}, values.data()};
  const Field list = field_of(constant);
  Node gather = node_of("Gather");
  const Field last = scalar(-1, Element::int64);
  EXPECT_EQ(scalar_of(*field_of(gather, {&list, &last})), 7.0);

  const Field mask = of_input("mask");
  Node unsqueeze = node_of("Unsqueeze");
  unsqueeze.attributes["axes"].integers = {1, 2};
  const Field wide = *field_of(unsqueeze, {&mask});
  EXPECT_EQ(wide.shape, (Shape{texts, number_size(1), number_size(1), tokens}));
  const Field target = field_of(Shape{texts, number_size(1), tokens, tokens});
  EXPECT_EQ(field_of(node_of("Expand"), {&wide, &target})->shape, (Shape{texts, number_size(1), tokens, tokens}));
  // A size that is not known fits only itself.
  const Field other = field_of(Shape{number_size(3), tokens});
  EXPECT_FALSE(field_of(node_of("Reshape"), {&mask, &other}));
  EXPECT_FALSE(broadcast({texts}, {tokens}));
}

// texts * tokens rows of one element, and by row and token back again.
TEST(Fields, AreFlattenedAndGatheredByRows) {
  const Field mask = of_input("mask");
  Node flatten = node_of("Flatten");
  flatten.attributes["axis"].integers = {2};
  const Field flat = *field_of(flatten, {&mask});
  EXPECT_EQ(flat.shape, (Shape{{Size::Kind::rows, 0}, number_size(1)}));

  const auto gathered_by = [&](const ExpressionPointer& length, std::size_t token_axis) {
    const ExpressionPointer scaled = apply(Operation::multiply, Element::int64, {place(0), length});
    const Field rows{{texts, number_size(1), number_size(1), tokens},
                     Element::int64,
                     apply(Operation::add, Element::int64, {place(token_axis), scaled})};
    return *field_of(node_of("Gather"), {&flat, &rows});
  };
  const ExpressionPointer own = input_at("mask", {place(0), place(3)});
  EXPECT_TRUE(same(*gathered_by(size_of_batch(tokens), 3).at, *own));
  // Another stride, or a token of another axis, is another element.
  EXPECT_FALSE(same(*gathered_by(size_of_batch(texts), 3).at, *own));
  EXPECT_FALSE(same(*gathered_by(size_of_batch(tokens), 2).at, *own));

  const Field all = field_of(Shape{number_size(-1)}), back = field_of(Shape{texts, number_size(1), tokens}),
              turned = field_of(Shape{tokens, texts});
  const Field row = *field_of(node_of("Reshape"), {&mask, &all});
  EXPECT_EQ(row.shape, (Shape{{Size::Kind::rows, 0}}));
  EXPECT_TRUE(same(*field_of(node_of("Reshape"), {&row, &back})->at, *input_at("mask", {place(0), place(2)})));
  EXPECT_FALSE(same(*field_of(node_of("Reshape"), {&row, &turned})->at, *input_at("mask", {place(1), place(0)})));
}

TEST(Fields, AreClippedByInputsAndByAttributes) {
  const Field two = scalar(2, Element::float32), five = scalar(5, Element::float32), nine = scalar(9, Element::float32);
  EXPECT_EQ(scalar_of(*field_of(node_of("Clip"), {&two, &five, &nine})), 5.0);
  EXPECT_EQ(scalar_of(*field_of(node_of("Clip"), {&nine, nullptr, &five})), 5.0);
  Node old = node_of("Clip");
  old.version = 6;
  old.attributes["min"].number = 3;
  old.attributes["max"].number = 7;
  EXPECT_EQ(scalar_of(*field_of(old, {&two})), 3.0);
  EXPECT_EQ(scalar_of(*field_of(old, {&five})), 5.0);
  EXPECT_EQ(scalar_of(*field_of(old, {&nine})), 7.0);
}

class Masks : public testing::Test {
 protected:
  [[nodiscard]] Field additive(double hidden) const {
    const Field mask = of_input("mask"), one = scalar(1, Element::float32), factor = scalar(hidden, Element::float32);
    Node cast = node_of("Cast"), unsqueeze = node_of("Unsqueeze");
    cast.attributes["to"].integers = {1};
    unsqueeze.attributes["axes"].integers = {1, 2};
    const Field number = *field_of(cast, {&mask});
    const Field inverse = *field_of(node_of("Sub"), {&one, &number});
    const Field scaled = *field_of(node_of("Mul"), {&inverse, &factor});
    return *field_of(unsqueeze, {&scaled});
  }

  Graph graph_;
  Reading reading_{graph_};
};

TEST_F(Masks, AreReadByWhatComesOfOneAndZero) {
  const auto mask = mask_of(additive(-10000), 4, 0, 3, reading_);
  ASSERT_TRUE(mask);
  EXPECT_EQ(mask->source.input, "mask");
  EXPECT_EQ(mask->counted, 0);
  EXPECT_EQ(mask->hidden, -10000);
}

// 1 where an id is not the one given, by several operators.
TEST_F(Masks, OfIdsAreReadByWhatComesOfEachId) {
  reading_.ids = "ids";
  reading_.vocabulary = 100;
  const Field ids = of_input("ids");
  const auto read = [&](const std::optional<Field>& field) {
    return field ? mask_of(*field, 2, 0, 1, reading_) : std::nullopt;
  };
  const Field three = scalar(3, Element::int64), zero = scalar(0, Element::int64);
  const Field is_three = *field_of(node_of("Equal"), {&ids, &three});
  const auto without_three = read(field_of(node_of("Not"), {&is_three}));
  ASSERT_TRUE(without_three);
  EXPECT_EQ(without_three->source, (MaskSource{"ids", 3}));
  EXPECT_EQ(without_three->counted, 1);
  EXPECT_EQ(without_three->hidden, 0);
  const auto without_zero = read(field_of(node_of("Greater"), {&ids, &zero}));
  ASSERT_TRUE(without_zero);
  EXPECT_EQ(without_zero->source, (MaskSource{"ids", 0}));
  // More than one id, or the ids themselves, are no mask.
  EXPECT_FALSE(read(field_of(node_of("Greater"), {&ids, &three})));
  EXPECT_FALSE(read(ids));
}

TEST_F(Masks, OverQueriesAreNone) {
  const Field mask = additive(-10000);
  Node turn = node_of("Transpose");
  turn.attributes["perm"].integers = {0, 1, 3, 2};
  const Field turned = *field_of(turn, {&mask});
  EXPECT_FALSE(mask_of(turned, 4, 0, 3, reading_));
}

TEST_F(Masks, OfTheTokenBesideAreNone) {
  Field shifted = additive(-10000);
  shifted.at = substitute(shifted.at, {nullptr, nullptr, nullptr,
                                       apply(Operation::add, Element::int64, {place(3), number(1, Element::int64)})});
  EXPECT_FALSE(mask_of(shifted, 4, 0, 3, reading_));
}

}  // namespace
}  // namespace gpux_encoder
