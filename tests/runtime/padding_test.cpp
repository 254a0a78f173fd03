#include "runtime/scheduling/padding.h"

#include <gmock/gmock.h>

#include "gpux/error.h"
#include "runtime/scheduling/batch.h"

namespace gpux::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Setting = std::vector<std::pair<std::string, std::string>>;

// A number is a fixed size, "?" a free one without a name.
SignatureEntry entry(const std::string& name, ElementType type, const std::vector<std::string>& dimensions) {
  SignatureEntry made;
  made.name = name;
  made.type.element = type;
  made.type.dimensions.emplace();
  for (const std::string& text : dimensions) {
    const bool fixed = text.front() >= '0' && text.front() <= '9';
    made.type.dimensions->push_back({fixed ? std::optional<std::int64_t>(std::stoll(text)) : std::nullopt,
                                     fixed || text == "?" ? std::string() : text});
  }
  return made;
}

// Of a language model: tokens and mask are of one length, the image has sizes of its own.
Signature signature() {
  Signature made;
  made.inputs = {entry("tokens", ElementType::int64, {"batch", "seq"}),
                 entry("mask", ElementType::boolean, {"batch", "seq"}),
                 entry("image", ElementType::float16, {"batch", "3", "?", "width"}),
                 entry("scale", ElementType::float32, {"batch", "2"}),
                 entry("words", ElementType::string, {"batch", "count"}),
                 entry("packed", ElementType::int4, {"batch", "pairs"}),
                 entry("square", ElementType::float32, {"batch", "batch"}),
                 entry("small", ElementType::uint8, {"batch", "?"})};
  made.outputs = {entry("hidden", ElementType::float32, {"batch", "seq", "4"}),
                  entry("scores", ElementType::float32, {"batch", "2", "seq", "seq"}),
                  entry("pooled", ElementType::float32, {"batch"}),
                  entry("other", ElementType::float32, {"batch", "?"})};
  return made;
}

std::vector<std::string> places(const std::vector<DimensionPlace>& places) {
  std::vector<std::string> told;
  for (const DimensionPlace& place : places) told.push_back(place.value + "." + std::to_string(place.dimension));
  return told;
}

TEST(Padding, IsReadFromASetting) {
  const Padding padding = read_padding({{"mask", "0"}, {"tokens", "-1"}, {"image", "1.5"}}, signature(), "padding");
  ASSERT_EQ(padding.inputs.size(), 3U);
  EXPECT_EQ(padded_input(padding, "scale"), nullptr);
  const PaddedInput& tokens = *padded_input(padding, "tokens");
  EXPECT_THAT(tokens.fill.as<std::int64_t>(), ElementsAre(-1));
  EXPECT_THAT(tokens.dimensions, ElementsAre(1));
  EXPECT_EQ(padded_input(padding, "image")->fill.as<Float16>()[0].bits, 0x3e00);
  EXPECT_THAT(padded_input(padding, "image")->dimensions, ElementsAre(2, 3));
  ASSERT_EQ(padding.sizes.size(), 2U);
  EXPECT_THAT(places(padding.sizes[0].inputs), ElementsAre("tokens.1", "mask.1"));
  EXPECT_THAT(places(padding.sizes[0].outputs), ElementsAre("hidden.1", "scores.2", "scores.3"));
  EXPECT_THAT(places(padding.sizes[1].inputs), ElementsAre("image.3"));
  EXPECT_THAT(places(padding.sizes[1].outputs), IsEmpty());

  const auto filled_with = [](const std::string& input, const std::string& number) {
    return read_padding({{input, number}}, signature(), "padding").inputs.front().fill;
  };
  EXPECT_THAT(filled_with("small", "2.55e2").as<std::uint8_t>(), ElementsAre(255));
  EXPECT_EQ(filled_with("image", "-Infinity").as<Float16>()[0].bits, 0xfc00);
}

TEST(Padding, IsRefusedWhereItDoesNotFitTheModel) {
  struct Row {
    Setting setting;
    const char* message;
  };

  for (const Row& row : std::vector<Row>{
           {{{"tokenz", "0"}}, "'serving.padding.tokenz': there is no such input; inputs: tokens, mask, image"},
           {{{"scale", "0"}}, "'serving.padding.scale': float32[batch, 2] has no free size beyond the first"},
           {{{"words", "0"}}, "'serving.padding.words': string cannot be filled up with a number"},
           {{{"packed", "0"}}, "'serving.padding.packed': int4 cannot be filled up"},
           {{{"small", "256"}}, "'serving.padding.small': input 'small': 256 does not fit uint8 (0 to 255)"},
           {{{"small", "-1"}}, "'serving.padding.small': input 'small': -1 does not fit uint8"},
           {{{"small", "0.5"}}, "'serving.padding.small': input 'small': 0.5 is not whole"},
           {{{"tokens", "NaN"}, {"mask", "0"}}, "'serving.padding.tokens': input 'tokens': NaN is not an int64"},
           {{{"tokens", "0"}, {"mask", "2"}}, "'serving.padding.mask': input 'mask': 2 is not a bool"},
           {{{"image", "1e6"}}, "'serving.padding.image': input 'image': 1e6 does not fit float16"},
           {{{"tokens", "0"}},
            "'serving.padding.tokens': input 'mask' has its size 'seq' too; add 'serving.padding.mask'"},
           {{{"square", "0"}}, "'serving.padding.square': its size 'batch' is the first dimension's too"},
           {{{"scale", "0"}, {"small", "x"}}, "first; 'serving.padding.small': input 'small'"},
       }) {
    try {
      (void)read_padding(row.setting, signature(), "serving.padding");
      ADD_FAILURE() << row.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      EXPECT_THAT(error.message(), HasSubstr(row.message));
    }
  }
  Signature fixed = signature();
  fixed.outputs.push_back(entry("loss", ElementType::float32, {"1"}));
  EXPECT_THROW((void)read_padding({{"small", "0"}}, fixed, "padding"), Error);
}

template <typename T>
Tensor of(Shape shape, std::initializer_list<T> values) {
  return Tensor::of<T>(std::move(shape), std::span<const T>(values.begin(), values.size()));
}

TEST(Padding, IsForRequestsWhoseSizesAgreeByName) {
  const Padding padding = read_padding({{"tokens", "0"}, {"mask", "0"}}, signature(), "padding");
  const auto item = [](Shape tokens, Shape mask) {
    return NamedValues{{"tokens", Tensor::allocate(ElementType::int64, std::move(tokens))},
                       {"mask", Tensor::allocate(ElementType::boolean, std::move(mask))}};
  };
  EXPECT_TRUE(can_be_padded(item({2, 3}, {2, 3}), padding));
  // One that broadcasts would not do so any more.
  EXPECT_FALSE(can_be_padded(item({2, 3}, {2, 1}), padding));
  EXPECT_FALSE(can_be_padded(item({0, 3}, {0, 3}), padding));
  EXPECT_FALSE(can_be_padded(item({2, 0}, {2, 0}), padding));
  // An input that is not given says nothing.
  EXPECT_TRUE(can_be_padded({{"mask", Tensor::allocate(ElementType::boolean, {2, 3})}}, padding));
  EXPECT_EQ(own_size(padding.sizes[0], {{"mask", Tensor::allocate(ElementType::boolean, {2, 3})}}), 3);
  EXPECT_EQ(own_size(padding.sizes[0], {}), std::nullopt);
}

BatchGroup group_of(const std::vector<NamedValues>& items) {
  BatchGroup group;
  for (std::size_t i = 0; i < items.size(); ++i) {
    group.items.push_back(i);
    group.rows.push_back(items[i].front().second.tensor()->shape()[0]);
  }
  return group;
}

// One input x of [batch, seq], padded with the number.
Padding of_one_input(ElementType type, const std::string& number) {
  Signature made;
  made.inputs = {entry("x", type, {"batch", "seq"})};
  made.outputs = {entry("y", type, {"batch", "seq"})};
  return read_padding({{"x", number}}, made, "padding");
}

Tensor joined(const std::vector<NamedValues>& items, const Padding& padding) {
  return *concatenate(items, group_of(items), &padding).front().second.tensor();
}

TEST(Concatenate, FillsUpWhatIsShorter) {
  const Padding of_int64 = of_one_input(ElementType::int64, "-7");
  const Tensor int64 = joined({{{"x", of<std::int64_t>({1, 2}, {1, 2})}},
                               {{"x", of<std::int64_t>({2, 3}, {3, 4, 5, 6, 7, 8})}},
                               {{"x", of<std::int64_t>({1, 1}, {9})}}},
                              of_int64);
  EXPECT_EQ(int64.shape(), (Shape{4, 3}));
  EXPECT_THAT(int64.as<std::int64_t>(), ElementsAre(1, 2, -7, 3, 4, 5, 6, 7, 8, 9, -7, -7));

  const Tensor float32 = joined({{{"x", of<float>({1, 1}, {1.5F})}}, {{"x", of<float>({1, 2}, {2, 3})}}},
                                of_one_input(ElementType::float32, "0.25"));
  EXPECT_THAT(float32.as<float>(), ElementsAre(1.5F, 0.25F, 2, 3));

  const Tensor zeros = joined({{{"x", of<float>({1, 1}, {1.5F})}}, {{"x", of<float>({1, 2}, {2, 3})}}},
                              of_one_input(ElementType::float32, "0"));
  EXPECT_THAT(zeros.as<float>(), ElementsAre(1.5F, 0, 2, 3));

  const Tensor boolean = joined({{{"x", of<bool>({1, 3}, {false, false, true})}}, {{"x", of<bool>({1, 1}, {false})}}},
                                of_one_input(ElementType::boolean, "1"));
  EXPECT_THAT(boolean.as<bool>(), ElementsAre(false, false, true, false, true, true));

  const Tensor float16 = joined({{{"x", of<Float16>({1, 1}, {{0x3c00}})}}, {{"x", of<Float16>({1, 2}, {{1}, {2}})}}},
                                of_one_input(ElementType::float16, "-2"));
  std::vector<unsigned> bits;
  for (const Float16 value : float16.as<Float16>()) bits.push_back(value.bits);
  EXPECT_THAT(bits, ElementsAre(0x3c00, 0xc000, 1, 2));
}

TEST(Concatenate, FillsUpInRowsThatAreCutOffAgain) {
  const Padding padding = of_one_input(ElementType::float32, "9");
  const std::vector<NamedValues> items{{{"x", of<float>({2, 1}, {1, 2})}}, {{"x", of<float>({1, 2}, {3, 4})}}};
  BatchGroup group = group_of(items);
  group.filler_rows = 2;
  const Tensor whole = *concatenate(items, group, &padding).front().second.tensor();
  EXPECT_EQ(whole.shape(), (Shape{5, 2}));
  // The first row again: what every model takes.
  EXPECT_THAT(whole.as<float>(), ElementsAre(1, 9, 2, 9, 3, 4, 1, 9, 1, 9));
  const NamedValues results{{"y", whole}};
  const std::vector<NamedValues> parts = split(results, group, items, &padding);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_THAT(parts[0].front().second.tensor()->as<float>(), ElementsAre(1, 2));
  EXPECT_THAT(parts[1].front().second.tensor()->as<float>(), ElementsAre(3, 4));
  // A result of the items' own rows alone is none of a model that has a row for each.
  EXPECT_TRUE(split({{"y", whole.rows(0, 3)}}, group, items, &padding).empty());
}

TEST(Concatenate, FillsUpInSeveralDimensions) {
  Signature made;
  made.inputs = {entry("x", ElementType::uint8, {"batch", "height", "2", "width"})};
  made.outputs = {entry("y", ElementType::uint8, {"batch"})};
  const Padding padding = read_padding({{"x", "9"}}, made, "padding");
  const Tensor both = joined({{{"x", of<std::uint8_t>({1, 2, 2, 1}, {1, 2, 3, 4})}},
                              {{"x", of<std::uint8_t>({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6})}}},
                             padding);
  EXPECT_EQ(both.shape(), (Shape{2, 2, 2, 3}));
  EXPECT_THAT(both.as<std::uint8_t>(),
              ElementsAre(1, 9, 9, 2, 9, 9, 3, 9, 9, 4, 9, 9, 1, 2, 3, 4, 5, 6, 9, 9, 9, 9, 9, 9));
}

// Elements numbered in their order.
Tensor numbered(const Shape& shape) {
  Tensor made = Tensor::allocate(ElementType::float32, shape);
  for (std::size_t i = 0; i < made.mutable_as<float>().size(); ++i) made.mutable_as<float>()[i] = static_cast<float>(i);
  return made;
}

std::vector<float> part_of(const std::vector<NamedValues>& parts, std::size_t item, std::string_view name,
                           const Shape& shape) {
  const Tensor& tensor = *find(parts.at(item), name)->tensor();
  EXPECT_EQ(tensor.shape(), shape);
  const auto values = tensor.as<float>();
  return {values.begin(), values.end()};
}

class SplitPadded : public testing::Test {
 protected:
  static NamedValues item(const Shape& shape) {
    return {{"tokens", Tensor::allocate(ElementType::int64, shape)},
            {"mask", Tensor::allocate(ElementType::boolean, shape)}};
  }

  const Padding padding_ = read_padding({{"tokens", "0"}, {"mask", "0"}}, signature(), "padding");
  const std::vector<NamedValues> items_{item({1, 1}), item({2, 3}), item({1, 2})};
};

TEST_F(SplitPadded, CutsNamedSizesBack) {
  const NamedValues results{{"hidden", numbered({4, 3, 2})},
                            {"scores", numbered({4, 1, 3, 3})},
                            {"pooled", numbered({4})},
                            {"other", numbered({4, 3})}};
  const auto parts = split(results, group_of(items_), items_, &padding_);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_THAT(part_of(parts, 0, "hidden", {1, 1, 2}), ElementsAre(0, 1));
  EXPECT_THAT(part_of(parts, 1, "hidden", {2, 3, 2}), ElementsAre(6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17));
  EXPECT_THAT(part_of(parts, 2, "hidden", {1, 2, 2}), ElementsAre(18, 19, 20, 21));
  EXPECT_THAT(part_of(parts, 0, "scores", {1, 1, 1, 1}), ElementsAre(0));
  EXPECT_EQ(part_of(parts, 1, "scores", {2, 1, 3, 3}).front(), 9);
  EXPECT_THAT(part_of(parts, 2, "scores", {1, 1, 2, 2}), ElementsAre(27, 28, 30, 31));
  EXPECT_THAT(part_of(parts, 0, "pooled", {1}), ElementsAre(0));
  EXPECT_THAT(part_of(parts, 1, "pooled", {2}), ElementsAre(1, 2));
  EXPECT_THAT(part_of(parts, 2, "pooled", {1}), ElementsAre(3));
  // Its size has no name: it stays as long as the run made it.
  EXPECT_THAT(part_of(parts, 0, "other", {1, 3}), ElementsAre(0, 1, 2));
}

TEST_F(SplitPadded, CutsEveryElementType) {
  Signature made = signature();
  made.outputs = {
      entry("flags", ElementType::boolean, {"batch", "seq"}), entry("labels", ElementType::int64, {"batch", "seq"}),
      entry("halves", ElementType::float16, {"batch", "seq"}), entry("words", ElementType::string, {"batch", "seq"}),
      entry("bits", ElementType::uint4, {"batch", "seq"})};
  const Padding padding = read_padding({{"tokens", "0"}, {"mask", "0"}}, made, "padding");
  const std::vector<NamedValues> items{item({1, 1}), item({1, 3})};
  Tensor bits = Tensor::allocate(ElementType::uint4, {2, 3});
  for (std::size_t i = 0; i < 3; ++i) bits.mutable_bytes()[i] = std::byte(0x21 + 0x22 * i);  // 1, 2, 3, 4, 5, 6
  const NamedValues results{{"flags", of<bool>({2, 3}, {true, false, false, true, false, true})},
                            {"labels", of<std::int64_t>({2, 3}, {1, 2, 3, 4, 5, 6})},
                            {"halves", of<Float16>({2, 3}, {{1}, {2}, {3}, {4}, {5}, {6}})},
                            {"words", Tensor::of_strings({2, 3}, {"a", "b", "c", "d", "e", "f"})},
                            {"bits", bits}};
  const auto parts = split(results, group_of(items), items, &padding);
  ASSERT_EQ(parts.size(), 2U);
  const auto part = [&](std::size_t index, std::string_view name) { return *find(parts[index], name)->tensor(); };
  EXPECT_THAT(part(0, "flags").as<bool>(), ElementsAre(true));
  EXPECT_THAT(part(1, "flags").as<bool>(), ElementsAre(true, false, true));
  EXPECT_THAT(part(0, "labels").as<std::int64_t>(), ElementsAre(1));
  EXPECT_THAT(part(1, "labels").as<std::int64_t>(), ElementsAre(4, 5, 6));
  EXPECT_EQ(part(0, "halves").as<Float16>()[0].bits, 1);
  EXPECT_EQ(part(1, "halves").as<Float16>()[2].bits, 6);
  EXPECT_THAT(part(0, "words").strings(), ElementsAre("a"));
  EXPECT_THAT(part(1, "words").strings(), ElementsAre("d", "e", "f"));
  EXPECT_EQ(part(0, "bits").shape(), (Shape{1, 1}));
  EXPECT_THAT(part(0, "bits").bytes(), ElementsAre(std::byte{0x01}));
  EXPECT_THAT(part(1, "bits").bytes(), ElementsAre(std::byte{0x54}, std::byte{0x06}));
}

TEST_F(SplitPadded, SharesTheMemoryOfWhatIsNotCut) {
  const Tensor hidden = numbered({4, 3, 2});
  const auto parts = split({{"hidden", hidden}}, group_of(items_), items_, &padding_);
  EXPECT_EQ(find(parts.at(1), "hidden")->tensor()->bytes().data(), hidden.bytes().data() + 6 * sizeof(float));
}

TEST_F(SplitPadded, RefusesResultsThatAreNotAsLongAsTheInputsWereMade) {
  EXPECT_THAT(split({{"hidden", numbered({4, 4, 2})}}, group_of(items_), items_, &padding_), IsEmpty());
  EXPECT_THAT(split({{"hidden", numbered({4})}}, group_of(items_), items_, &padding_), IsEmpty());
  EXPECT_THAT(split({{"hidden", numbered({3, 3, 2})}}, group_of(items_), items_, &padding_), IsEmpty());
  // Where all are of one length there is nothing to cut.
  const std::vector<NamedValues> equal{item({2, 3}), item({2, 3})};
  EXPECT_EQ(split({{"hidden", numbered({4, 7})}}, group_of(equal), equal, &padding_).size(), 2U);
}

}  // namespace
}  // namespace gpux::runtime
