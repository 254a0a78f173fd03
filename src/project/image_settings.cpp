#include "project/image_settings.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/spelling.h"
#include "gpux/tensor.h"

namespace gpux {
namespace {

using image::Fit;
using yaml::TreeNode;

constexpr std::array<std::string_view, 7> image_keys{"resize", "crop",  "normalize", "color",
                                                     "layout", "dtype", "max_pixels"};

// Of ImageNet's training images, as torchvision's models and most others take them.
constexpr std::array<double, 3> imagenet_mean{0.485, 0.456, 0.406};
constexpr std::array<double, 3> imagenet_deviation{0.229, 0.224, 0.225};

std::vector<double> numbers_of(const TreeNode& node) {
  if (node.kind == TreeNode::Kind::scalar) return {number_from(node.text).value_or(0)};
  std::vector<double> numbers;
  for (const auto& item : node.items) numbers.push_back(number_from(item->text).value_or(0));
  return numbers;
}

image::Size size_of(const TreeNode& node) {
  const auto side = [](const TreeNode& one) { return integer_from(one.text).value_or(1); };
  if (node.kind == TreeNode::Kind::scalar) return {side(node), side(node)};
  return {side(*node.items[0]), side(*node.items[1])};
}

/// The value of a short object's key: the object's, or the node itself where it is the short form of `key`.
const TreeNode* member(const TreeNode& node, std::string_view key, bool is_short_form) {
  if (node.kind == TreeNode::Kind::map) return node.given(key);
  return is_short_form ? &node : nullptr;
}

image::Resize resize_of(const TreeNode& node) {
  image::Resize resize;
  const TreeNode& size = *member(node, "size", true);
  resize.size = size_of(size);
  resize.fit = size.kind == TreeNode::Kind::scalar ? Fit::shortest : Fit::stretch;
  if (const TreeNode* fit = member(node, "fit", false)) resize.fit = image::fit_from(fit->text).value_or(resize.fit);
  if (const TreeNode* mode = member(node, "mode", false)) {
    resize.mode = image::interpolation_from(mode->text).value_or(resize.mode);
  }
  if (const TreeNode* fill = member(node, "fill", false)) resize.fill = numbers_of(*fill);
  return resize;
}

class RecipeReader {
 public:
  RecipeReader(const TreeNode& node, ProblemList& problems) : node_(node), problems_(problems) {}

  image::Recipe read() {
    if (const TreeNode* resize = node_.given("resize")) read_resize(*resize);
    if (const TreeNode* crop = node_.given("crop")) {
      recipe_.crop = size_of(*member(*crop, "size", true));
      if (const TreeNode* rounding = member(*crop, "rounding", false)) {
        recipe_.crop_rounding = image::crop_rounding_from(rounding->text).value_or(recipe_.crop_rounding);
      }
    }
    if (const TreeNode* color = node_.given("color")) {
      recipe_.color = image::color_from(color->text).value_or(recipe_.color);
    }
    if (const TreeNode* layout = node_.given("layout")) {
      recipe_.layout = image::layout_from(layout->text).value_or(recipe_.layout);
    }
    if (const TreeNode* type = node_.given("dtype")) recipe_.type = element_type_from(type->text);
    if (const TreeNode* pixels = node_.given("max_pixels")) {
      recipe_.max_pixels = static_cast<std::uint64_t>(integer_from(pixels->text).value_or(1));
    }
    if (const TreeNode* normalize = node_.given("normalize")) read_normalize(*normalize);
    for (const image::RecipeProblem& problem : image::problems_of(recipe_)) {
      problems_.add(place_of(problem.key), fmt::format("'preprocessing.{}': {}", problem.key, problem.message));
    }
    return std::move(recipe_);
  }

 private:
  void read_resize(const TreeNode& node) {
    recipe_.resize = resize_of(node);
    const TreeNode* fill = member(node, "fill", false);
    if (fill == nullptr || recipe_.resize->fit == Fit::letterbox) return;
    problems_.add(fill->position, "'preprocessing.resize.fill' requires 'fit: letterbox'");
  }

  void read_normalize(const TreeNode& node) {
    const TreeNode* mean = member(node, "mean", false);
    const TreeNode* deviation = member(node, "std", false);
    if (const TreeNode* scale = member(node, "scale", false)) recipe_.scale = ratio_from(scale->text);
    if (mean != nullptr) recipe_.mean = numbers_of(*mean);
    if (deviation != nullptr) recipe_.standard_deviation = numbers_of(*deviation);
    const TreeNode* preset = member(node, "preset", true);
    if (preset == nullptr) return;
    for (const TreeNode* other : {mean, deviation}) {
      if (other == nullptr) continue;
      problems_.add(other->position, "'preprocessing.normalize.preset' already sets mean and std; keep one");
    }
    recipe_.mean.assign(imagenet_mean.begin(), imagenet_mean.end());
    recipe_.standard_deviation.assign(imagenet_deviation.begin(), imagenet_deviation.end());
    // They stand in the order of the channels.
    if (recipe_.color == image::Color::bgr) {
      std::reverse(recipe_.mean.begin(), recipe_.mean.end());
      std::reverse(recipe_.standard_deviation.begin(), recipe_.standard_deviation.end());
    }
  }

  /// Of a key below `preprocessing`, or of the nearest above it that is given.
  [[nodiscard]] yaml::Position place_of(const std::string& key) const {
    const TreeNode* node = &node_;
    for (const std::string& part : split(key, '.')) {
      const TreeNode* next = node->given(part);
      if (next == nullptr) break;
      node = next;
    }
    return node->position;
  }

  const TreeNode& node_;
  ProblemList& problems_;
  image::Recipe recipe_;
};

}  // namespace

std::optional<image::Recipe> read_recipe(const TreeNode& preprocessing, ProblemList& problems) {
  const bool any = std::any_of(image_keys.begin(), image_keys.end(),
                               [&](std::string_view key) { return preprocessing.given(key) != nullptr; });
  if (!any) return std::nullopt;
  return RecipeReader(preprocessing, problems).read();
}

}  // namespace gpux
