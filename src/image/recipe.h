#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/tensor.h"

namespace gpux::image {

enum class Color : std::uint8_t { rgb, bgr, gray, rgba };
enum class Layout : std::uint8_t { nchw, nhwc };
/// Filters as torchvision's with antialias: a triangle, or Keys' cubic with a = -0.5, widened where pixels become
/// fewer.
enum class Interpolation : std::uint8_t { bilinear, bicubic };

/// How an image is resized whose sides are not in the ratio of the wanted ones.
enum class Fit : std::uint8_t {
  stretch,    ///< exactly the wanted size
  shortest,   ///< the shorter side is the wanted one, the other follows, rounded down: torchvision's Resize(int)
  letterbox,  ///< as large as fits inside, in the middle, with `fill` around it
};

/// Where a crop begins if an odd number of pixels is cut off in a direction.
enum class CropRounding : std::uint8_t {
  half_even,  ///< half of it, rounded to even: torchvision's CenterCrop
  down,       ///< half of it, rounded down: the image processors of transformers
};

/// Height and width in pixels.
struct Size {
  std::int64_t height = 0;
  std::int64_t width = 0;

  bool operator==(const Size&) const = default;
};

constexpr std::int64_t limit_side = 65535;  ///< maximum width and height of images, read or made
constexpr std::uint64_t default_max_pixels = std::uint64_t{1} << 25U;  ///< 33.5 million, 100 MB of RGB
constexpr double default_fill = 114;

struct Resize {
  Size size;  ///< Fit::shortest: both the same
  Fit fit = Fit::stretch;
  Interpolation mode = Interpolation::bilinear;
  std::vector<double> fill{default_fill};  ///< Fit::letterbox: levels of 0 to 255, one for all channels or one for each
};

/// How images become a model's input: `preprocessing` of gpux.yml. What is done, in this order: orientation of EXIF,
/// color, resize, crop, (level * scale - mean) / deviation, type, layout.
struct Recipe {
  std::optional<Resize> resize;  ///< empty: as large as it comes
  /// The middle of the image, with zeros around it where the image is smaller: torchvision's CenterCrop.
  std::optional<Size> crop;
  CropRounding crop_rounding = CropRounding::half_even;
  Color color = Color::rgb;
  std::optional<double> scale;             ///< empty: 1/255 for floating types, 1 for whole numbers
  std::vector<double> mean;                ///< mean of each channel, or one for all; empty: 0
  std::vector<double> standard_deviation;  ///< the same; empty: 1
  Layout layout = Layout::nchw;
  std::optional<ElementType> type;  ///< empty: float32; callers that know the model set its input's type
  std::uint64_t max_pixels =
      default_max_pixels;  ///< maximum pixels of an image; larger ones are refused before decoding
};

/// 1, 3 or 4.
[[nodiscard]] std::size_t channels_of(Color color) noexcept;

/// Floating and whole numbers of whole bytes.
[[nodiscard]] bool is_image_type(ElementType type) noexcept;

/// "rgb", "NCHW", "bilinear", "letterbox", …; empty where it is none of these.
[[nodiscard]] std::optional<Color> color_from(std::string_view name) noexcept;
[[nodiscard]] std::optional<Layout> layout_from(std::string_view name) noexcept;
[[nodiscard]] std::optional<Interpolation> interpolation_from(std::string_view name) noexcept;
[[nodiscard]] std::optional<Fit> fit_from(std::string_view name) noexcept;
[[nodiscard]] std::optional<CropRounding> crop_rounding_from(std::string_view name) noexcept;

struct RecipeProblem {
  std::string key;  ///< below `preprocessing`: "normalize.std"
  std::string message;
};

/// Problems of the recipe, each with the key of its setting; empty if there are none.
[[nodiscard]] std::vector<RecipeProblem> problems_of(const Recipe& recipe);

/// Table of the value that each of the 256 pixel levels is mapped to: [channels, 256] of the recipe's type, computed in
/// double and rounded once. Error invalid_input where a whole-number type cannot hold a value.
[[nodiscard]] Tensor levels_of(const Recipe& recipe);

}  // namespace gpux::image
