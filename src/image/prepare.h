#pragma once

#include "gpux/tensor.h"
#include "image/picture.h"
#include "image/recipe.h"

namespace gpux::image {

/// The picture as a model takes it: [1, channels, height, width], or [1, height, width, channels], of the recipe's
/// type. The picture has the channels of the recipe's color. Resizing is resize()'s; where a part of the result lies
/// outside of the picture, it is the recipe's `fill` around a letterbox, and level 0 around a crop, before
/// normalization. Errors: invalid_config for a recipe that problems_of() objects to; invalid_input where the tensor
/// would have more pixels than the recipe's max_pixels.
[[nodiscard]] Tensor prepare(const Picture& picture, const Recipe& recipe);

/// Height and width of the tensor that a picture of this size becomes.
[[nodiscard]] Size prepared_size(Size picture, const Recipe& recipe);

/// The shape of every tensor that the recipe makes, to be held against a model's input; -1 for a size that each picture
/// decides.
[[nodiscard]] Shape shape_of(const Recipe& recipe);

}  // namespace gpux::image
