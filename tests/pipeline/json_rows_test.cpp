// Rows of a batch in JSON, each without the batch axis.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/refusal.h"
#include "pipeline/json_items.h"

namespace gpux::pipeline {
namespace {

using test::refusal;
using testing::HasSubstr;

SignatureEntry entry(std::string name, ElementType element, std::vector<Dimension> dimensions) {
  SignatureEntry made;
  made.name = std::move(name);
  made.type.kind = ValueKind::tensor;
  made.type.element = element;
  made.type.dimensions = std::move(dimensions);
  made.required = true;
  return made;
}

const Dimension batch{.size = std::nullopt, .name = "batch"};
const Signature pair{
    .inputs = {entry("x", ElementType::float32, {batch, {.size = 2}}), entry("scale", ElementType::float32, {})},
    .outputs = {}};
const Signature texts{.inputs = {entry("text", ElementType::string, {batch})}, .outputs = {}};
const Signature any_rank{.inputs = {entry("x", ElementType::int64, {})}, .outputs = {}};

TEST(JsonRows, GetTheBatchAxis) {
  const NamedValues named = read_json_row(R"({"x": [1, 2], "scale": 3})", pair);
  ASSERT_EQ(named.size(), 2U);
  EXPECT_EQ(named[0].second.tensor()->shape(), (Shape{1, 2}));
  EXPECT_EQ(named[1].second.tensor()->shape(), Shape{});
  const NamedValues text = read_json_row(R"("a text")", texts);
  EXPECT_EQ(text.front().second.tensor()->shape(), Shape{1});
  EXPECT_EQ(text.front().second.tensor()->strings().front(), "a text");
  EXPECT_EQ(read_json_row(R"({"b64": "YQ=="})", texts).front().second.tensor()->strings().front(), "a");
  EXPECT_EQ(read_json_row(R"({"text": {"b64": "YQ=="}})", texts).front().second.tensor()->strings().front(), "a");
  EXPECT_EQ(read_json_row("7", any_rank).front().second.tensor()->shape(), Shape{});
}

TEST(JsonRows, AreRefusedByTheirInput) {
  EXPECT_THAT(refusal([] { (void)read_json_row("[1, 2]", pair); }), HasSubstr("the model has several"));
  EXPECT_THAT(refusal([] { (void)read_json_row(R"({"b64": "?"})", texts); }), HasSubstr("b64 is no text in base64"));
  EXPECT_THAT(refusal([] { (void)read_json_row(R"({"b64": "/w=="})", texts); }), HasSubstr("b64 is no text in UTF-8"));
  EXPECT_THAT(refusal([] { (void)read_json_row(R"({"y": 1})", pair); }), HasSubstr("there is no input 'y'"));
  EXPECT_THAT(refusal([] { (void)read_json_row(R"({"x": 1, "scale": 3})", pair); }), HasSubstr("input 'x'"));
}

TEST(JsonRows, AreWrittenWithoutIt) {
  const auto written = [](const NamedValues& result, std::span<const DeclaredValue> declared = {}) {
    std::string out;
    append_row(out, result, declared, NonFinite::null);
    return out;
  };
  const std::vector<float> two{1, 2};
  const std::vector<std::int64_t> ids{3, 4};
  EXPECT_EQ(written({{"y", Tensor::of<float>({1, 2}, two)}}), "[1,2]");
  EXPECT_EQ(written({{"y", Tensor::of<float>({2, 1}, two)}}), "[[1],[2]]") << "there is no row";
  EXPECT_EQ(written({{"y", Tensor::of<float>({1}, std::span(two).first(1))}}), "1");
  EXPECT_EQ(written({{"y", Tensor::of<float>({}, std::span(two).first(1))}}), "1");
  EXPECT_EQ(written({{"y", Tensor::of<float>({1, 2}, two)}, {"ids", Tensor::of<std::int64_t>({2}, ids)}}),
            R"({"y": [1,2], "ids": [3,4]})");
  DeclaredValue answer;
  answer.name = "answer";
  answer.is_json = true;
  EXPECT_EQ(written({{"answer", Tensor::of_strings({1}, {R"({"a": 1})"})}}, std::vector{answer}), R"({"a": 1})");
}

}  // namespace
}  // namespace gpux::pipeline
