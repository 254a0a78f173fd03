#include "image/recipe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"
#include "tensor/convert.h"
#include "tensor/small_float.h"

namespace gpux::image {
namespace {

constexpr std::size_t level_count = 256;
constexpr double highest_level = 255;

template <typename Kind, std::size_t count>
using Names = std::array<std::pair<std::string_view, Kind>, count>;

constexpr Names<Color, 4> colors{
    {{"rgb", Color::rgb}, {"bgr", Color::bgr}, {"gray", Color::gray}, {"rgba", Color::rgba}}};
constexpr Names<Layout, 2> layouts{{{"NCHW", Layout::nchw}, {"NHWC", Layout::nhwc}}};
constexpr Names<Interpolation, 2> interpolations{
    {{"bilinear", Interpolation::bilinear}, {"bicubic", Interpolation::bicubic}}};
constexpr Names<CropRounding, 2> crop_roundings{{{"half_even", CropRounding::half_even}, {"down", CropRounding::down}}};
constexpr Names<Fit, 3> fits{{{"stretch", Fit::stretch}, {"shortest", Fit::shortest}, {"letterbox", Fit::letterbox}}};

template <typename Kind, std::size_t count>
std::optional<Kind> named(const Names<Kind, count>& names, std::string_view name) noexcept {
  for (const auto& [known, kind] : names) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

bool is_floating(ElementType type) noexcept {
  return type == ElementType::float32 || type == ElementType::float64 || is_small_float(type);
}

double of_channel(const std::vector<double>& values, std::size_t channel, double otherwise) {
  if (values.empty()) return otherwise;
  return values[std::min(channel, values.size() - 1)];
}

class Examination {
 public:
  explicit Examination(const Recipe& recipe) : recipe_(recipe), channels_(channels_of(recipe.color)) {}

  std::vector<RecipeProblem> problems() {
    if (recipe_.resize) examine(*recipe_.resize);
    if (recipe_.crop) examine_size("crop", *recipe_.crop);
    examine_numbers("normalize.mean", recipe_.mean);
    examine_numbers("normalize.std", recipe_.standard_deviation);
    for (const double deviation : recipe_.standard_deviation) {
      if (deviation == 0) add("normalize.std", "0 divides nothing; other numbers are accepted");
    }
    const double scale = recipe_.scale.value_or(1);
    if (!std::isfinite(scale) || scale <= 0) add("normalize.scale", "a number above 0 is accepted");
    if (recipe_.max_pixels == 0) add("max_pixels", "a whole number from 1 is accepted");
    examine_type();
    return std::move(problems_);
  }

 private:
  void add(std::string_view key, std::string message) { problems_.push_back({std::string(key), std::move(message)}); }

  void examine_size(std::string_view key, Size size) {
    for (const std::int64_t side : {size.height, size.width}) {
      if (side >= 1 && side <= limit_side) continue;
      add(key, fmt::format("{} is no side of an image; 1 to {} is accepted", side, limit_side));
    }
  }

  void examine(const Resize& resize) {
    examine_size("resize", resize.size);
    if (resize.fit == Fit::shortest && resize.size.height != resize.size.width) {
      add("resize.fit", "'shortest' takes one size, that of the shorter side; 'resize.size' has two");
    }
    if (resize.fit != Fit::letterbox) return;
    if (recipe_.crop) add("crop", "'resize.fit: letterbox' already sets the size; keep one");
    examine_numbers("resize.fill", resize.fill);
    for (const double level : resize.fill) {
      if (level >= 0 && level <= highest_level && std::floor(level) == level) continue;
      add("resize.fill", "whole numbers from 0 to 255 are accepted");
      return;
    }
  }

  void examine_numbers(std::string_view key, const std::vector<double>& numbers) {
    if (numbers.size() > 1 && numbers.size() != channels_) {
      add(key, fmt::format("{} numbers for {} channel{}; one for each, or one for all, is accepted", numbers.size(),
                           channels_, channels_ == 1 ? "" : "s"));
    }
    if (!std::all_of(numbers.begin(), numbers.end(), [](double number) { return std::isfinite(number); })) {
      add(key, "finite numbers are accepted");
    }
  }

  void examine_type() {
    const ElementType type = recipe_.type.value_or(ElementType::float32);
    if (!is_image_type(type)) {
      return add("dtype", fmt::format("images do not become {}; floating and whole numbers are accepted",
                                      gpux::to_string(type)));
    }
    if (!problems_.empty()) return;
    try {
      static_cast<void>(levels_of(recipe_));
    } catch (const Error& error) {
      add("dtype", fmt::format("levels do not become {} by 'normalize': {}", gpux::to_string(type), error.message()));
    }
  }

  const Recipe& recipe_;
  std::size_t channels_;
  std::vector<RecipeProblem> problems_;
};

}  // namespace

std::size_t channels_of(Color color) noexcept {
  if (color == Color::gray) return 1;
  return color == Color::rgba ? 4 : 3;
}

bool is_image_type(ElementType type) noexcept {
  switch (type) {
    case ElementType::uint8:
    case ElementType::int8:
    case ElementType::uint16:
    case ElementType::int16:
    case ElementType::int32:
    case ElementType::int64:
    case ElementType::uint32:
    case ElementType::uint64:
    case ElementType::float16:
    case ElementType::bfloat16:
    case ElementType::float32:
    case ElementType::float64:
      return true;
    default:
      return false;
  }
}

std::optional<Color> color_from(std::string_view name) noexcept {
  return named(colors, name);
}

std::optional<Layout> layout_from(std::string_view name) noexcept {
  return named(layouts, name);
}

std::optional<Interpolation> interpolation_from(std::string_view name) noexcept {
  return named(interpolations, name);
}

std::optional<Fit> fit_from(std::string_view name) noexcept {
  return named(fits, name);
}

std::optional<CropRounding> crop_rounding_from(std::string_view name) noexcept {
  return named(crop_roundings, name);
}

std::vector<RecipeProblem> problems_of(const Recipe& recipe) {
  return Examination(recipe).problems();
}

Tensor levels_of(const Recipe& recipe) {
  const ElementType type = recipe.type.value_or(ElementType::float32);
  const std::size_t channels = channels_of(recipe.color);
  std::vector<double> values;
  values.reserve(channels * level_count);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const double mean = of_channel(recipe.mean, channel, 0);
    const double deviation = of_channel(recipe.standard_deviation, channel, 1);
    for (std::size_t level = 0; level < level_count; ++level) {
      const auto number = static_cast<double>(level);
      // Divided where 1/255 is meant: 255 levels then end at exactly 1.
      const double scaled = recipe.scale ? number * *recipe.scale : is_floating(type) ? number / highest_level : number;
      values.push_back((scaled - mean) / deviation);
    }
  }
  const Shape shape{static_cast<std::int64_t>(channels), static_cast<std::int64_t>(level_count)};
  return convert(Tensor::of(shape, std::span<const double>(values)), type);
}

}  // namespace gpux::image
