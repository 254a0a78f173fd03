#include "model/made_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "embedding/encoder_folder.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "onnx/model_writer.h"

namespace gpux {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Tensor& tensor_of(const MadeInputs& made, const std::string& name) {
  return *find(made.values, name)->tensor();
}

OpenModel opened(const std::filesystem::path& onnx_file) {
  OpenModel model;
  model.located.onnx_file = onnx_file;
  model.info = ModelInspector::inspect(onnx_file);
  return model;
}

// A detector of images of any size, and what it is given beside them.
std::filesystem::path write_detector(const test::TemporaryFolder& folder) {
  folder.write("model.onnx", onnx_test::ModelWriter()
                                 .add_input("image", ElementType::float32, {"batch", 3, "height", "width"})
                                 .add_input("scale", ElementType::float32, {"batch", ""})
                                 .add_output("y", ElementType::float32, {"batch", 3, "height", "width"})
                                 .add_node("Identity", {"image"}, {"y"})
                                 .bytes());
  return folder.path() / "model.onnx";
}

TEST(MadeInputs, AreTextsOfAModelThatReadsTexts) {
  const test::TemporaryFolder folder;
  OpenModel model =
      opened(test::write_encoder_folder(folder, R"({"pooling_mode": "mean"})", false) / "onnx/model.onnx");
  const MadeInputs made = make_inputs(model, {}, 0);
  const Shape shape = tensor_of(made, "input_ids").shape();
  ASSERT_EQ(shape.size(), 2U);
  EXPECT_EQ(shape.front(), 1);
  EXPECT_GT(shape.back(), 3);
  EXPECT_EQ(tensor_of(made, "attention_mask").shape(), shape);
  EXPECT_THAT(made.assumed, IsEmpty());
  const auto ids_of = [&](std::uint64_t seed) {
    const MadeInputs other = make_inputs(model, {}, seed);
    const std::span<const std::int64_t> ids = tensor_of(other, "input_ids").as<std::int64_t>();
    return std::vector<std::int64_t>(ids.begin(), ids.end());
  };
  EXPECT_EQ(ids_of(0), ids_of(0));
  EXPECT_NE(ids_of(0), ids_of(1));
}

TEST(MadeInputs, AreOfTheSizesThatPreprocessingMakes) {
  const test::TemporaryFolder folder;
  OpenModel model = opened(write_detector(folder));
  model.located.project = parse_project_file(
      "name: a\nmodel: {source: model.onnx}\n"
      "preprocessing: {resize: {size: [32, 48], fit: letterbox}, normalize: {mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, "
      "0.5]}}\n",
      folder.path() / "gpux.yml");
  const MadeInputs made = make_inputs(model, {}, 0);
  EXPECT_EQ(tensor_of(made, "image").shape(), (Shape{1, 3, 32, 48}));
  const std::span<const float> levels = tensor_of(made, "image").as<float>();
  EXPECT_LT(*std::ranges::min_element(levels), -0.9F) << "normalized as images are";
  EXPECT_GT(*std::ranges::max_element(levels), 0.9F);
  EXPECT_EQ(tensor_of(made, "scale").shape(), (Shape{1, 1}));
  EXPECT_THAT(made.assumed, ElementsAre("batch", "scale.1"));

  // Sizes of other dimensions leave it those of preprocessing.
  const MadeInputs scaled = make_inputs(model, {{"scale.1", 4}}, 0);
  EXPECT_EQ(tensor_of(scaled, "scale").shape(), (Shape{1, 4}));
  ASSERT_EQ(tensor_of(scaled, "image").shape(), (Shape{1, 3, 32, 48}));
  EXPECT_LT(*std::ranges::min_element(tensor_of(scaled, "image").as<float>()), -0.9F) << "normalized as images are";
  EXPECT_THAT(scaled.assumed, ElementsAre("batch"));
  const MadeInputs batch = make_inputs(model, {{"batch", 2}}, 0);
  EXPECT_EQ(tensor_of(batch, "image").shape(), (Shape{2, 3, 32, 48}));
  EXPECT_THAT(batch.assumed, ElementsAre("scale.1"));
  const MadeInputs high = make_inputs(model, {{"height", 64}}, 0);
  EXPECT_EQ(tensor_of(high, "image").shape(), (Shape{1, 3, 64, 48})) << "what is said of a dimension counts";
}

TEST(MadeInputs, NameTheSizesThatNothingSays) {
  const test::TemporaryFolder folder;
  OpenModel model = opened(write_detector(folder));
  const MadeInputs made = make_inputs(model, {}, 0);
  EXPECT_EQ(tensor_of(made, "image").shape(), (Shape{1, 3, 1, 1}));
  EXPECT_THAT(made.assumed, ElementsAre("batch", "height", "width", "scale.1"));
  const Error failed(ErrorCode::invalid_input, "node 'pool' failed");
  EXPECT_EQ(
      naming_assumed_sizes(failed, made).value_or(failed).message(),
      "node 'pool' failed; in made-up inputs, dimensions whose size the model leaves open are 1: dim NAME=SIZE of "
      "bench and verify sets sizes (batch, height, width, scale.1), input gives other inputs");
  EXPECT_EQ(naming_assumed_sizes(failed, made).value_or(failed).code(), ErrorCode::invalid_input);
  const Error unavailable(ErrorCode::provider_unavailable, "no provider");
  EXPECT_FALSE(naming_assumed_sizes(unavailable, made));
  EXPECT_FALSE(naming_assumed_sizes(failed, MadeInputs{}));

  const MadeInputs sized = make_inputs(model, {{"height", 8}, {"image.3", 9}}, 0);
  EXPECT_EQ(tensor_of(sized, "image").shape(), (Shape{1, 3, 8, 9}));
  EXPECT_THAT(sized.assumed, ElementsAre("batch", "scale.1"));
}

}  // namespace
}  // namespace gpux
