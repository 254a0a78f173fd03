#include "image/recipe.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpux::image {
namespace {

using testing::HasSubstr;

TEST(Recipe, SaysWhatIsWrongWithIt) {
  struct Case {
    std::string key, message;
    Recipe recipe;
  };

  std::vector<Case> cases;
  const auto add = [&](std::string key, std::string message, const auto& change) {
    cases.push_back({std::move(key), std::move(message), {}});
    change(cases.back().recipe);
  };
  add("", "", [](Recipe&) {});
  add("", "", [](Recipe& r) { r.mean = {0.5}; });
  add("", "", [](Recipe& r) { r.type = ElementType::uint8; });
  add("resize", "0 is no side of an image", [](Recipe& r) { r.resize = Resize{{0, 5}}; });
  add("crop", "65536 is no side of an image; 1 to 65535", [](Recipe& r) { r.crop = Size{1, 65536}; });
  add("resize.fit", "'shortest' takes one size", [](Recipe& r) { r.resize = Resize{{4, 5}, Fit::shortest}; });
  add("resize.fill", "0 to 255", [](Recipe& r) { r.resize = Resize{{4, 5}, Fit::letterbox, {}, {-1}}; });
  add("resize.fill", "0 to 255", [](Recipe& r) { r.resize = Resize{{4, 5}, Fit::letterbox, {}, {1.5}}; });
  add("crop", "keep one", [](Recipe& r) {
    r.resize = Resize{{4, 5}, Fit::letterbox};
    r.crop = Size{1, 1};
  });
  add("normalize.mean", "2 numbers for 3 channels", [](Recipe& r) { r.mean = {1, 2}; });
  add("normalize.std", "3 numbers for 1 channel;", [](Recipe& r) {
    r.color = Color::gray;
    r.standard_deviation = {1, 2, 3};
  });
  add("normalize.std", "0 divides", [](Recipe& r) { r.standard_deviation = {1, 0, 1}; });
  add("normalize.mean", "finite", [](Recipe& r) { r.mean = {std::numeric_limits<double>::infinity()}; });
  add("normalize.scale", "above 0", [](Recipe& r) { r.scale = 0; });
  add("max_pixels", "from 1", [](Recipe& r) { r.max_pixels = 0; });
  add("dtype", "images do not become string", [](Recipe& r) { r.type = ElementType::string; });
  add("dtype", "images do not become int4", [](Recipe& r) { r.type = ElementType::int4; });
  add("dtype", "levels do not become int8 by 'normalize'", [](Recipe& r) { r.type = ElementType::int8; });
  add("dtype", "levels do not become uint8 by 'normalize'", [](Recipe& r) {
    r.type = ElementType::uint8;
    r.scale = 0.5;
  });
  add("dtype", "levels do not become float16", [](Recipe& r) {
    r.type = ElementType::float16;
    r.scale = 1000;
  });
  for (const Case& each : cases) {
    SCOPED_TRACE(each.key + ": " + each.message);
    const std::vector<RecipeProblem> problems = problems_of(each.recipe);
    if (each.key.empty()) {
      EXPECT_TRUE(problems.empty()) << problems.front().message;
      continue;
    }
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_EQ(problems.front().key, each.key);
    EXPECT_THAT(problems.front().message, HasSubstr(each.message));
  }
}

TEST(Recipe, ReadsNamesAsTheyAreWritten) {
  EXPECT_EQ(color_from("bgr"), Color::bgr);
  EXPECT_EQ(color_from("BGR"), std::nullopt);
  EXPECT_EQ(layout_from("NHWC"), Layout::nhwc);
  EXPECT_EQ(interpolation_from("bicubic"), Interpolation::bicubic);
  EXPECT_EQ(fit_from("letterbox"), Fit::letterbox);
  EXPECT_EQ(fit_from(""), std::nullopt);
}

}  // namespace
}  // namespace gpux::image
