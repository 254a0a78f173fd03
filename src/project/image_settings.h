#pragma once

#include <optional>

#include "image/recipe.h"
#include "project/project_check.h"
#include "project/yaml_document.h"

namespace gpux {

/// The keys of `preprocessing` that are about images, off a map that agrees with the schema; empty where none is
/// given. What image::problems_of() objects to goes to `problems`, with the place of its key.
std::optional<image::Recipe> read_recipe(const yaml::TreeNode& preprocessing, ProblemList& problems);

}  // namespace gpux
