// An image in any form but a path, made a tensor by the recipe that the first character chooses.
#include <cstdint>
#include <span>

#include "base/base64.h"
#include "fuzzer.h"
#include "image/decode.h"
#include "image/read_image.h"

namespace {

using gpux::image::Recipe;

constexpr std::uint64_t limit_pixels = std::uint64_t{1} << 16U;

Recipe chosen_recipe(unsigned choice) {
  using namespace gpux::image;
  Recipe recipe;
  recipe.max_pixels = limit_pixels;
  recipe.color = static_cast<Color>(choice & 3U);
  recipe.layout = (choice & 4U) != 0 ? Layout::nhwc : Layout::nchw;
  const auto mode = (choice & 8U) != 0 ? Interpolation::bicubic : Interpolation::bilinear;
  switch (choice >> 4U & 3U) {
    case 0:
      break;
    case 1:
      recipe.resize = Resize{{24, 40}, Fit::stretch, mode};
      break;
    case 2:
      recipe.resize = Resize{{32, 32}, Fit::shortest, mode};
      recipe.crop = Size{28, 36};
      break;
    default:
      recipe.resize = Resize{{40, 24}, Fit::letterbox, mode};
      break;
  }
  return recipe;
}

}  // namespace

void gpux::fuzz::read_hostile(std::string_view input) {
  if (input.empty()) return;
  const Recipe recipe = chosen_recipe(static_cast<unsigned char>(input.front()));
  input.remove_prefix(1);
  const Tensor tensor = image::read_image(input, recipe);
  require(tensor.shape().size() == 4 && tensor.element_count() > 0, "an image without pixels");
  for (const float value : tensor.as<float>()) require(value >= 0 && value <= 1, "a level beyond 0 to 1");
  const auto file = std::as_bytes(std::span(input));
  if (!image::format_of(file)) return;
  const Tensor again = must_succeed("reading it in base64", [&] { return image::read_image(to_base64(file), recipe); });
  require(again.shape() == tensor.shape(), "the same image in base64 has another size");
}
