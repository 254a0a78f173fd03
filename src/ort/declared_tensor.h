#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpux/tensor.h"

namespace gpux::ort {

/// A size as a model declares it: a number, or a name that stands for one (empty: any number).
struct DeclaredSize {
  std::int64_t size = -1;
  std::string name = {};
};

/// An input or output as a model declares it. Without sizes its rank is not known: a scalar looks the same.
struct DeclaredTensor {
  ElementType type = ElementType::undefined;  ///< undefined: it is no tensor
  std::vector<DeclaredSize> sizes = {};
};

/// An input that a run is given.
struct GivenShape {
  const DeclaredTensor* declared = nullptr;
  const Shape* shape = nullptr;
};

/// The output's shape, if the model's declarations and the shapes of the inputs tell it. Declarations can be wrong.
/// Pure.
std::optional<Shape> expected_shape(const DeclaredTensor& output, std::span<const GivenShape> inputs);

}  // namespace gpux::ort
