#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/tensor.h"
#include "image/read_image.h"
#include "image/recipe.h"
#include "project/project_file.h"

namespace gpux {

/// An input that may be given as images instead of numbers.
struct ImageInput {
  std::string name;
  image::Recipe recipe;
  image::Sources sources;
};

/// The image input of the model with its recipe, from `preprocessing` in gpux.yml; `project` may be null. Empty where
/// it has no key that is about images. Error invalid_config where the model has no input, or several, that could be one
/// (a tensor of rank 4 of numbers), or it takes other sizes than the recipe makes.
std::optional<ImageInput> image_input(const ProjectFile* project, const Signature& signature,
                                      const image::Sources& sources);

/// Reads one more of the images of an input. Errors as of image::read_image(); invalid_input where its size is not
/// that of those before.
void append_image(const ImageInput& input, std::string_view value, std::vector<Tensor>& images);

/// Joins images of one shape, one row each, into one tensor. Error invalid_input where there is none.
Tensor join_images(std::vector<Tensor> images);

/// Images as the input takes them, one row each, in any form that the sources allow.
/// Errors as of image::read_image(); invalid_input where their sizes differ.
Tensor read_images(const ImageInput& input, std::span<const std::string> values);

}  // namespace gpux
