#include "project/image_input.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "image/prepare.h"

namespace gpux {
namespace {

bool could_be_image(const SignatureEntry& entry) {
  const ValueType& type = entry.type;
  if (type.kind != ValueKind::tensor || type.element == ElementType::string) return false;
  return !type.dimensions || type.dimensions->size() == 4;
}

// The place of the first key that is about images.
std::string place_of(const ProjectFile& project) {
  for (const char* key : {"resize", "crop", "normalize", "color", "layout", "dtype", "max_pixels"}) {
    const std::string whole = std::string("preprocessing.") + key;
    if (project.positions.contains(whole)) return fmt::format("{}: {}", project.where(whole), whole);
  }
  return fmt::format("{}: preprocessing", project.where("preprocessing"));
}

}  // namespace

std::optional<ImageInput> image_input(const ProjectFile* project, const Signature& signature,
                                      const image::Sources& sources) {
  if (project == nullptr || !project->image_recipe) return std::nullopt;
  const auto& inputs = signature.inputs;
  const auto count = std::count_if(inputs.begin(), inputs.end(), could_be_image);
  if (count != 1) {
    throw Error(ErrorCode::invalid_config,
                fmt::format("{} is given, but the model has {} that could be an image: a tensor of rank 4",
                            place_of(*project), count == 0 ? "no input" : "several inputs"));
  }
  const SignatureEntry& entry = *std::find_if(inputs.begin(), inputs.end(), could_be_image);
  ImageInput input{entry.name, *project->image_recipe, sources};
  if (!input.recipe.type) input.recipe.type = entry.type.element;
  if (*input.recipe.type != entry.type.element) {
    throw Error(ErrorCode::invalid_config,
                fmt::format("{}: images become {}, and input '{}' takes {}", place_of(*project),
                            to_string(*input.recipe.type), entry.name, to_string(entry.type)));
  }
  const Shape shape = image::shape_of(input.recipe);
  for (std::size_t i = 1; entry.type.dimensions && i < shape.size(); ++i) {
    const auto& size = (*entry.type.dimensions)[i].size;
    if (!size || shape[i] < 0 || *size == shape[i]) continue;
    throw Error(ErrorCode::invalid_config,
                fmt::format("{}: images become {}, and input '{}' takes {}", place_of(*project), to_string(shape),
                            entry.name, to_string(entry.type)));
  }
  return input;
}

void append_image(const ImageInput& input, std::string_view value, std::vector<Tensor>& images) {
  Tensor image = image::read_image(value, input.recipe, input.sources);
  if (!images.empty() && image.shape() != images.front().shape()) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("image {} becomes {}, and those before {}: give each in an object of its own",
                            images.size(), to_string(image.shape()), to_string(images.front().shape())));
  }
  images.push_back(std::move(image));
}

Tensor join_images(std::vector<Tensor> images) {
  if (images.empty()) throw Error(ErrorCode::invalid_input, "there is no image");
  if (images.size() == 1) return std::move(images.front());
  Shape shape = images.front().shape();
  shape.front() = static_cast<std::int64_t>(images.size());
  Tensor joined = Tensor::allocate(images.front().type(), std::move(shape));
  std::byte* next = joined.mutable_bytes().data();
  for (const Tensor& image : images) next = std::ranges::copy(image.bytes(), next).out;
  return joined;
}

Tensor read_images(const ImageInput& input, std::span<const std::string> values) {
  std::vector<Tensor> images;
  for (const std::string& value : values) append_image(input, value, images);
  return join_images(std::move(images));
}

}  // namespace gpux
