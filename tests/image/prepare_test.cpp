#include "image/prepare.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/pictures.h"
#include "image/resize.h"

namespace gpux::image {
namespace {

using test::image_of;
using test::levels_of;
using testing::ElementsAre;
using testing::HasSubstr;

Image counted(Size size, std::size_t channels) {
  std::vector<std::uint8_t> levels(static_cast<std::size_t>(size.height * size.width) * channels);
  std::iota(levels.begin(), levels.end(), std::uint8_t{0});
  return image_of(size, channels, levels);
}

Recipe raw(Color color = Color::gray) {
  Recipe recipe;
  recipe.color = color;
  recipe.type = ElementType::uint8;
  return recipe;
}

std::vector<int> levels_of(const Tensor& tensor) {
  const auto levels = tensor.as<std::uint8_t>();
  return {levels.begin(), levels.end()};
}

TEST(Prepare, OrdersChannelsAndDimensions) {
  struct {
    Color color;
    Layout layout;
    Shape shape;
    std::vector<int> levels;
  } const cases[]{
      {Color::rgb, Layout::nchw, {1, 3, 1, 2}, {0, 3, 1, 4, 2, 5}},
      {Color::rgb, Layout::nhwc, {1, 1, 2, 3}, {0, 1, 2, 3, 4, 5}},
      {Color::bgr, Layout::nchw, {1, 3, 1, 2}, {2, 5, 1, 4, 0, 3}},
      {Color::bgr, Layout::nhwc, {1, 1, 2, 3}, {2, 1, 0, 5, 4, 3}},
      {Color::rgba, Layout::nchw, {1, 4, 1, 2}, {0, 4, 1, 5, 2, 6, 3, 7}},
      {Color::gray, Layout::nchw, {1, 1, 1, 2}, {0, 1}},
      {Color::gray, Layout::nhwc, {1, 1, 2, 1}, {0, 1}},
  };

  for (const auto& each : cases) {
    Recipe recipe = raw(each.color);
    recipe.layout = each.layout;
    const Tensor tensor = prepare(counted({1, 2}, channels_of(each.color)), recipe);
    EXPECT_EQ(tensor.shape(), each.shape);
    EXPECT_EQ(levels_of(tensor), each.levels);
  }
}

TEST(Prepare, NormalizesChannelByChannel) {
  const Image image = image_of({1, 2}, 3, {0, 51, 255, 255, 102, 0});
  Recipe recipe;
  EXPECT_THAT(prepare(image, recipe).as<float>(), ElementsAre(0, 1, 0.2F, 0.4F, 1, 0));
  recipe.mean = {0.5};
  recipe.standard_deviation = {0.5, 1, 0.25};
  EXPECT_THAT(prepare(image, recipe).as<float>(), ElementsAre(-1, 1, -0.3F, -0.1F, 2, -2));
  recipe.scale = 1;
  recipe.mean = {1, 2, 3};
  recipe.standard_deviation = {2};
  EXPECT_THAT(prepare(image, recipe).as<float>(), ElementsAre(-0.5F, 127, 24.5F, 50, 126, -1.5F));
  // The numbers belong to the channels in their order, whichever that is.
  recipe.color = Color::bgr;
  EXPECT_THAT(prepare(image, recipe).as<float>(), ElementsAre(127, -0.5F, 24.5F, 50, -1.5F, 126));
}

TEST(Prepare, MakesEveryType) {
  const Image image = image_of({1, 2}, 1, {0, 255});
  Recipe recipe = raw();
  EXPECT_THAT(prepare(image, recipe).as<std::uint8_t>(), ElementsAre(0, 255));
  recipe.type = ElementType::int64;
  EXPECT_THAT(prepare(image, recipe).as<std::int64_t>(), ElementsAre(0, 255));
  recipe.type = ElementType::float64;
  EXPECT_THAT(prepare(image, recipe).as<double>(), ElementsAre(0, 1));
  recipe.type = ElementType::float16;
  EXPECT_EQ(prepare(image, recipe).as<Float16>()[1].bits, 0x3c00);
  recipe.type = ElementType::bfloat16;
  EXPECT_EQ(prepare(image, recipe).as<BFloat16>()[1].bits, 0x3f80);
  recipe.type = ElementType::int8;
  recipe.mean = {128};
  EXPECT_THAT(prepare(image, recipe).as<std::int8_t>(), ElementsAre(-128, 127));
}

TEST(Prepare, GivesTheSizesOfTorchvision) {
  Recipe shortest;
  shortest.resize = Resize{{224, 224}, Fit::shortest};
  Recipe boxed;
  boxed.resize = Resize{{640, 640}, Fit::letterbox};
  Recipe cropped = shortest;
  cropped.crop = Size{200, 300};

  struct {
    const Recipe& recipe;
    Size image, prepared;
  } const cases[]{
      {shortest, {480, 640}, {224, 298}}, {shortest, {640, 480}, {298, 224}}, {shortest, {100, 100}, {224, 224}},
      {shortest, {1, 10}, {224, 2240}},   {boxed, {480, 640}, {640, 640}},    {boxed, {1, 1}, {640, 640}},
      {cropped, {480, 640}, {200, 300}},
  };

  for (const auto& each : cases) EXPECT_EQ(prepared_size(each.image, each.recipe), each.prepared);
}

TEST(Prepare, SaysItsShapeBeforeThereIsAImage) {
  Recipe recipe;
  EXPECT_EQ(shape_of(recipe), (Shape{1, 3, -1, -1}));
  recipe.resize = Resize{{224, 224}, Fit::shortest};
  recipe.color = Color::gray;
  EXPECT_EQ(shape_of(recipe), (Shape{1, 1, -1, -1}));
  recipe.crop = Size{200, 100};
  EXPECT_EQ(shape_of(recipe), (Shape{1, 1, 200, 100}));
  recipe.layout = Layout::nhwc;
  EXPECT_EQ(shape_of(recipe), (Shape{1, 200, 100, 1}));
  recipe.crop = std::nullopt;
  recipe.resize = Resize{{640, 480}, Fit::letterbox};
  EXPECT_EQ(shape_of(recipe), (Shape{1, 640, 480, 1}));
}

TEST(Prepare, CutsTheMiddleAsTorchvisionDoes) {
  struct {
    Size image, crop;
    std::vector<int> levels;
  } const cases[]{
      {{1, 5}, {1, 3}, {1, 2, 3}},
      // Half a pixel is rounded to even: 0.5 to 0, 1.5 to 2.
      {{1, 4}, {1, 3}, {0, 1, 2}},
      {{1, 6}, {1, 3}, {2, 3, 4}},
      {{3, 1}, {1, 1}, {1}},
      // More before than there is behind it: torchvision adds the odd one behind.
      {{1, 1}, {1, 4}, {0, 0, 0, 0}},
      {{1, 2}, {1, 5}, {0, 0, 1, 0, 0}},
      {{2, 2}, {3, 2}, {0, 1, 2, 3, 0, 0}},
      {{1, 4}, {3, 2}, {0, 0, 1, 2, 0, 0}},
  };

  for (const auto& each : cases) {
    Recipe recipe = raw();
    recipe.crop = each.crop;
    const Tensor tensor = prepare(counted(each.image, 1), recipe);
    EXPECT_EQ(tensor.shape(), (Shape{1, 1, each.crop.height, each.crop.width}));
    EXPECT_EQ(levels_of(tensor), each.levels);
  }
}

TEST(Prepare, FillsALetterboxOnBothSides) {
  Recipe recipe = raw(Color::rgb);
  recipe.resize = Resize{{2, 5}, Fit::letterbox, Interpolation::bilinear, {1, 2, 3}};
  recipe.layout = Layout::nhwc;
  const Tensor wide = prepare(image_of({1, 1}, 3, {7, 8, 9}), recipe);
  EXPECT_THAT(levels_of(wide), ElementsAre(1, 2, 3, 7, 8, 9, 7, 8, 9, 1, 2, 3, 1, 2, 3,  //
                                           1, 2, 3, 7, 8, 9, 7, 8, 9, 1, 2, 3, 1, 2, 3));
  recipe.color = Color::bgr;
  recipe.resize->size = {3, 1};
  EXPECT_THAT(levels_of(prepare(image_of({1, 1}, 3, {7, 8, 9}), recipe)), ElementsAre(1, 2, 3, 9, 8, 7, 1, 2, 3));
  // As thin as it may be: a pixel stays.
  recipe = raw();
  recipe.resize = Resize{{3, 3}, Fit::letterbox, Interpolation::bilinear, {0}};
  EXPECT_THAT(levels_of(prepare(image_of({1, 100}, 1, std::vector<std::uint8_t>(100, 9)), recipe)),
              ElementsAre(0, 0, 0, 9, 9, 9, 0, 0, 0));
}

TEST(Prepare, CropsWithoutResizingTheRest) {
  // 1 x 65535 to a shorter side of 2000 would be 262 billion pixels.
  Recipe recipe = raw();
  recipe.resize = Resize{{2000, 2000}, Fit::shortest};
  recipe.crop = Size{3, 3};
  const Image line = image_of({1, 65535}, 1, std::vector<std::uint8_t>(65535, 77));
  EXPECT_THAT(levels_of(prepare(line, recipe)), testing::Each(77));
  recipe.crop = std::nullopt;
  try {
    static_cast<void>(prepare(line, recipe));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_THAT(error.message(), HasSubstr("the image would be resized to 131070000x2000 pixels; at most 33554432 "
                                           "pixels (preprocessing.max_pixels) are accepted"));
  }
}

TEST(Prepare, CropOfResizedIsAPartOfResized) {
  const Image image = counted({23, 31}, 3);
  for (const Interpolation mode : {Interpolation::bilinear, Interpolation::bicubic}) {
    const Image whole = resize(image, {17, 40}, {0, 0, {17, 40}}, mode);
    const Image part = resize(image, {17, 40}, {5, 7, {3, 4}}, mode);
    for (std::int64_t y = 0; y < 3; ++y) {
      const std::uint8_t* expected = whole.row(5 + y) + std::size_t{7} * 3;
      EXPECT_TRUE(std::equal(part.row(y), part.row(y) + part.row_bytes(), expected)) << y;
    }
  }
}

TEST(Prepare, LeavesAImageOfTheRightSizeAlone) {
  const Image image = counted({5, 7}, 3);
  for (const Interpolation mode : {Interpolation::bilinear, Interpolation::bicubic}) {
    EXPECT_EQ(levels_of(resize(image, {5, 7}, {0, 0, {5, 7}}, mode)), levels_of(image));
  }
}

TEST(Prepare, RefusesARecipeThatIsNone) {
  Recipe recipe;
  recipe.standard_deviation = {0};
  try {
    static_cast<void>(prepare(counted({1, 1}, 3), recipe));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    EXPECT_EQ(error.message(), "preprocessing.normalize.std: 0 divides nothing; other numbers are accepted");
  }
}

}  // namespace
}  // namespace gpux::image
