#include "recognizer.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fields.h"
#include "reading.h"

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
  EXPECT_EQ(mask->input, "mask");
  EXPECT_EQ(mask->counted, 0);
  EXPECT_EQ(mask->hidden, -10000);
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
