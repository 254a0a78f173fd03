// 50 images of all kinds against what Pillow and torchvision made of them: make_references.py.
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "image/decode.h"
#include "image/pictures.h"
#include "image/prepare.h"
#include "tensor/npz.h"

namespace gpux::image {
namespace {

using test::bytes_of;
using test::image_file;

Recipe unchanged() {
  Recipe recipe;
  recipe.layout = Layout::nhwc;
  recipe.type = ElementType::uint8;
  return recipe;
}

/// The recipe that a kind of reference was made by.
Recipe recipe_of(const std::string& kind) {
  Recipe recipe = unchanged();
  if (kind == "stretch" || kind == "gray") recipe.resize = Resize{{33, 47}};
  if (kind == "crop" || kind == "normal") {
    recipe.resize = Resize{{40, 40}, Fit::shortest, Interpolation::bicubic};
    recipe.crop = Size{36, 29};
  }
  if (kind == "gray") recipe.color = Color::gray;
  if (kind == "alpha") recipe.color = Color::rgba;
  if (kind == "normal") {
    recipe.layout = Layout::nchw;
    recipe.type = ElementType::float32;
    recipe.mean = {0.485, 0.456, 0.406};
    recipe.standard_deviation = {0.229, 0.224, 0.225};
  }
  return recipe;
}

class References : public testing::Test {
 protected:
  References() {
    const std::string file = read_file(std::string(GPUX_SOURCE_DIR) + "/tests/image/references.npz");
    for (auto& [name, tensor] : read_npz(bytes_of(file))) references_.emplace(name, std::move(tensor));
  }

  static Tensor made(const std::string& name) {
    const std::size_t slash = name.find('/');
    const Recipe recipe = recipe_of(name.substr(slash + 1));
    return prepare(decode(bytes_of(image_file(name.substr(0, slash))), channels_of(recipe.color)), recipe);
  }

  std::map<std::string, Tensor> references_;
};

TEST_F(References, AreWithinOneLevelInEveryImageOfEveryKind) {
  std::map<std::string, int> compared;
  std::int64_t elements = 0;
  std::int64_t different = 0;
  for (const auto& [name, reference] : references_) {
    if (reference.type() != ElementType::uint8) continue;
    SCOPED_TRACE(name);
    const Tensor tensor = made(name);
    Shape shape = reference.shape();
    shape.insert(shape.begin(), 1);
    ASSERT_EQ(tensor.shape(), shape);
    const auto levels = tensor.as<std::uint8_t>();
    const auto expected = reference.as<std::uint8_t>();
    int most = 0;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const int difference = std::abs(int{levels[i]} - int{expected[i]});
      most = std::max(most, difference);
      different += difference != 0;
    }
    elements += tensor.element_count();
    EXPECT_LE(most, 1);
    ++compared[name.substr(name.find('/') + 1)];
  }
  EXPECT_EQ(compared["stretch"], 50);
  EXPECT_EQ(compared["crop"], 50);
  EXPECT_GT(compared["plain"], 20);
  EXPECT_GT(compared["gray"], 3);
  EXPECT_GT(compared["alpha"], 5);
  RecordProperty("elements", std::to_string(elements));
  RecordProperty("a_level_off", std::to_string(different));
}

TEST_F(References, OfImagesAsTheyAreAreEqual) {
  for (const auto& [name, reference] : references_) {
    if (!name.ends_with("/plain") && !name.ends_with("/alpha")) continue;
    const Tensor tensor = made(name);
    const auto levels = tensor.as<std::uint8_t>();
    const auto expected = reference.as<std::uint8_t>();
    EXPECT_TRUE(std::equal(levels.begin(), levels.end(), expected.begin(), expected.end())) << name;
  }
}

TEST_F(References, AreNormalizedAlike) {
  int compared = 0;
  for (const auto& [name, reference] : references_) {
    if (!name.ends_with("/normal")) continue;
    SCOPED_TRACE(name);
    const Tensor tensor = made(name);
    const auto values = tensor.as<float>();
    const auto expected = reference.as<float>();
    ASSERT_EQ(values.size(), expected.size());
    // A level is worth 1 / (255 * std); torch rounds after each step, gpux once.
    const float level = 1 / (255 * 0.224F) + 1e-6F;
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], level) << i;
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

}  // namespace
}  // namespace gpux::image
