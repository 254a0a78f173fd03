#include "image/prepare.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"
#include "image/resize.h"

namespace gpux::image {
namespace {

/// The image is scaled, then seen through a window, which may reach beyond it.
struct Plan {
  Size scaled;
  Window window;
  std::vector<double> fill;  ///< levels of what lies beyond
};

// torchvision's: the longer side follows, rounded down.
Size with_shortest(Size image, std::int64_t side) {
  const auto follow = [side](std::int64_t longer, std::int64_t shorter) { return side * longer / shorter; };
  if (image.width <= image.height) return {follow(image.height, image.width), side};
  return {side, follow(image.width, image.height)};
}

Size fitting_inside(Size image, Size box) {
  const double ratio = std::min(static_cast<double>(box.height) / static_cast<double>(image.height),
                                static_cast<double>(box.width) / static_cast<double>(image.width));
  const auto side = [ratio](std::int64_t from, std::int64_t most) {
    const auto rounded = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(from) * ratio));
    return std::clamp(rounded, std::int64_t{1}, most);
  };
  return {side(image.height, box.height), side(image.width, box.width)};
}

// Where pixels are added, half of an odd number is rounded down.
std::int64_t crop_begin(std::int64_t from, std::int64_t wanted, CropRounding rounding) {
  if (wanted > from) return -((wanted - from) / 2);
  if (rounding == CropRounding::down) return (from - wanted) / 2;
  return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(from - wanted) / 2));
}

Plan plan_of(Size image, const Recipe& recipe) {
  Plan plan{image, {0, 0, image}, {0}};
  if (recipe.resize) {
    const Resize& resize = *recipe.resize;
    if (resize.fit == Fit::letterbox) {
      const Size inner = fitting_inside(image, resize.size);
      const std::int64_t above = (resize.size.height - inner.height) / 2;
      const std::int64_t before = (resize.size.width - inner.width) / 2;
      return {inner, {-above, -before, resize.size}, resize.fill};
    }
    plan.scaled = resize.fit == Fit::shortest ? with_shortest(image, resize.size.height) : resize.size;
    plan.window.size = plan.scaled;
  }
  if (recipe.crop) {
    plan.window = {crop_begin(plan.scaled.height, recipe.crop->height, recipe.crop_rounding),
                   crop_begin(plan.scaled.width, recipe.crop->width, recipe.crop_rounding), *recipe.crop};
  }
  return plan;
}

/// The part of the window that the image fills.
Window visible_part(const Plan& plan) {
  const std::int64_t top = std::max(plan.window.top, std::int64_t{0});
  const std::int64_t left = std::max(plan.window.left, std::int64_t{0});
  const std::int64_t bottom = std::min(plan.window.top + plan.window.size.height, plan.scaled.height);
  const std::int64_t right = std::min(plan.window.left + plan.window.size.width, plan.scaled.width);
  return {top, left, {bottom - top, right - left}};
}

Image part_of(const Image& image, const Window& window) {
  Image part(window.size, image.channels());
  for (std::int64_t y = 0; y < window.size.height; ++y) {
    const std::uint8_t* from = image.row(window.top + y) + static_cast<std::size_t>(window.left) * image.channels();
    std::copy_n(from, part.row_bytes(), part.row(y));
  }
  return part;
}

void require_sound(const Recipe& recipe) {
  const std::vector<RecipeProblem> problems = problems_of(recipe);
  if (problems.empty()) return;
  throw Error(ErrorCode::invalid_config,
              fmt::format("preprocessing.{}: {}", problems.front().key, problems.front().message));
}

void require_within(Size size, const Recipe& recipe) {
  const auto height = static_cast<std::uint64_t>(size.height);
  const auto width = static_cast<std::uint64_t>(size.width);
  // Both sides are below 2^48: limit_side squared and more would be refused here.
  if (height <= recipe.max_pixels && width <= recipe.max_pixels / height) return;
  throw Error(ErrorCode::invalid_input, fmt::format("the image would be resized to {}x{} pixels; at most {} pixels "
                                                    "(preprocessing.max_pixels) are accepted",
                                                    size.width, size.height, recipe.max_pixels));
}

/// Element is as wide as the tensor's type; what it means does not matter to a table.
template <typename Element>
class Writer {
 public:
  Writer(const Tensor& levels, const Recipe& recipe, Size size, std::span<std::byte> out)
      : levels_(reinterpret_cast<const Element*>(levels.bytes().data())),
        out_(reinterpret_cast<Element*>(out.data())),
        size_(size),
        channels_(channels_of(recipe.color)),
        is_reversed_(recipe.color == Color::bgr),
        is_planar_(recipe.layout == Layout::nchw) {}

  void fill(const std::vector<double>& fill) {
    for (std::size_t channel = 0; channel < channels_; ++channel) {
      const double level = fill[std::min(channel, fill.size() - 1)];
      const Element value = level_table(channel)[static_cast<std::size_t>(level)];
      for (std::int64_t y = 0; y < size_.height; ++y) {
        Element* to = place(channel, y, 0);
        for (std::int64_t x = 0; x < size_.width; ++x, to += step()) *to = value;
      }
    }
  }

  void write(const Image& part, std::int64_t top, std::int64_t left) {
    for (std::size_t channel = 0; channel < channels_; ++channel) {
      const Element* table = level_table(channel);
      const std::size_t source = is_reversed_ ? channels_ - 1 - channel : channel;
      for (std::int64_t y = 0; y < part.height(); ++y) {
        const std::uint8_t* from = part.row(y) + source;
        Element* to = place(channel, top + y, left);
        for (std::int64_t x = 0; x < part.width(); ++x, from += channels_, to += step()) *to = table[*from];
      }
    }
  }

 private:
  [[nodiscard]] const Element* level_table(std::size_t channel) const noexcept { return levels_ + channel * 256; }

  [[nodiscard]] std::size_t step() const noexcept { return is_planar_ ? 1 : channels_; }

  [[nodiscard]] Element* place(std::size_t channel, std::int64_t y, std::int64_t x) const noexcept {
    const auto height = static_cast<std::size_t>(size_.height);
    const auto width = static_cast<std::size_t>(size_.width);
    const std::size_t pixel = static_cast<std::size_t>(y) * width + static_cast<std::size_t>(x);
    return out_ + (is_planar_ ? channel * height * width + pixel : pixel * channels_ + channel);
  }

  const Element* levels_;
  Element* out_;
  Size size_;
  std::size_t channels_;
  bool is_reversed_, is_planar_;
};

template <typename Element>
void write(const Tensor& levels, const Recipe& recipe, const Plan& plan, const Image& image, Tensor& tensor) {
  const Window visible = visible_part(plan);
  Writer<Element> writer(levels, recipe, plan.window.size, tensor.mutable_bytes());
  if (visible.size != plan.window.size) writer.fill(plan.fill);
  const std::int64_t top = visible.top - plan.window.top;
  const std::int64_t left = visible.left - plan.window.left;
  if (plan.scaled != image.size()) {
    const auto mode = recipe.resize ? recipe.resize->mode : Interpolation::bilinear;
    writer.write(resize(image, plan.scaled, visible, mode), top, left);
  } else if (visible.size != image.size()) {
    writer.write(part_of(image, visible), top, left);
  } else {
    writer.write(image, top, left);
  }
}

}  // namespace

Size prepared_size(Size image, const Recipe& recipe) {
  return plan_of(image, recipe).window.size;
}

Shape shape_of(const Recipe& recipe) {
  constexpr std::int64_t any = -1;
  Size size{any, any};
  if (recipe.resize && recipe.resize->fit != Fit::shortest) size = recipe.resize->size;
  if (recipe.crop) size = *recipe.crop;
  const auto channels = static_cast<std::int64_t>(channels_of(recipe.color));
  if (recipe.layout == Layout::nhwc) return {1, size.height, size.width, channels};
  return {1, channels, size.height, size.width};
}

Tensor prepare(const Image& image, const Recipe& recipe) {
  require_sound(recipe);
  if (image.channels() != channels_of(recipe.color)) {
    throw Error(ErrorCode::internal,
                fmt::format("an image of {} channels for a recipe of {}", image.channels(), channels_of(recipe.color)));
  }
  const Plan plan = plan_of(image.size(), recipe);
  const Size size = plan.window.size;
  require_within(size, recipe);
  const Tensor levels = levels_of(recipe);
  Shape shape = shape_of(recipe);
  const std::size_t rows = recipe.layout == Layout::nchw ? 2 : 1;
  shape[rows] = size.height;
  shape[rows + 1] = size.width;
  Tensor tensor = Tensor::allocate(levels.type(), std::move(shape));
  switch (bits_of(levels.type())) {
    case 8:
      write<std::uint8_t>(levels, recipe, plan, image, tensor);
      break;
    case 16:
      write<std::uint16_t>(levels, recipe, plan, image, tensor);
      break;
    case 32:
      write<std::uint32_t>(levels, recipe, plan, image, tensor);
      break;
    default:
      write<std::uint64_t>(levels, recipe, plan, image, tensor);
      break;
  }
  return tensor;
}

}  // namespace gpux::image
