#include "ort/declared_tensor.h"

namespace gpux::ort {
namespace {

// What stands for the name in all inputs that have it; empty where they differ, or none has it.
std::optional<std::int64_t> size_of(const std::string& name, std::span<const GivenShape> inputs) {
  std::optional<std::int64_t> found;
  for (const GivenShape& input : inputs) {
    const auto& declared = input.declared->sizes;
    if (declared.size() != input.shape->size()) continue;
    for (std::size_t i = 0; i < declared.size(); ++i) {
      if (declared[i].size >= 0 || declared[i].name != name) continue;
      const std::int64_t given = (*input.shape)[i];
      if (found && *found != given) return std::nullopt;
      found = given;
    }
  }
  return found;
}

}  // namespace

std::optional<Shape> expected_shape(const DeclaredTensor& output, std::span<const GivenShape> inputs) {
  if (output.type == ElementType::undefined || output.sizes.empty()) return std::nullopt;
  Shape shape;
  for (const DeclaredSize& declared : output.sizes) {
    std::optional<std::int64_t> size;
    if (declared.size >= 0) {
      size = declared.size;
    } else if (!declared.name.empty()) {
      size = size_of(declared.name, inputs);
    }
    if (!size) return std::nullopt;
    shape.push_back(*size);
  }
  return shape;
}

}  // namespace gpux::ort
