#pragma once

#include "gpux/tensor.h"
#include "image/picture.h"
#include "image/recipe.h"

namespace gpux::image {

/// The image as a model takes it: [1, channels, height, width], or [1, height, width, channels], of the recipe's
/// type. The image has the channels of the recipe's color. Resizing is resize()'s; where a part of the result lies
/// outside of the image, it is the recipe's `fill` around a letterbox, and level 0 around a crop, before
/// normalization. Errors: invalid_config for a recipe that problems_of() objects to; invalid_input where the tensor
/// would have more pixels than the recipe's max_pixels.
[[nodiscard]] Tensor prepare(const Image& image, const Recipe& recipe);

/// Height and width of the tensor that an image of this size becomes.
[[nodiscard]] Size prepared_size(Size image, const Recipe& recipe);

/// The shape of every tensor that the recipe makes, to be held against a model's input; -1 for a size that each image
/// decides.
[[nodiscard]] Shape shape_of(const Recipe& recipe);

}  // namespace gpux::image
