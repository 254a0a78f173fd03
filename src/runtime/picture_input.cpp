#include "runtime/picture_input.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "image/prepare.h"
#include "runtime/batch.h"

namespace gpux::runtime {
namespace {

bool could_be_picture(const SignatureEntry& entry) {
  const ValueType& type = entry.type;
  if (type.kind != ValueKind::tensor || type.element == ElementType::string) return false;
  return !type.dimensions || type.dimensions->size() == 4;
}

// The place of the first key that is about pictures.
std::string place_of(const ProjectFile& project) {
  for (const char* key : {"resize", "crop", "normalize", "color", "layout", "dtype", "max_pixels"}) {
    const std::string whole = std::string("preprocessing.") + key;
    if (project.positions.contains(whole)) return fmt::format("{}: {}", project.where(whole), whole);
  }
  return fmt::format("{}: preprocessing", project.where("preprocessing"));
}

}  // namespace

std::optional<PictureInput> picture_input(const ProjectFile* project, const Signature& signature,
                                          const image::Sources& sources) {
  if (project == nullptr || !project->picture) return std::nullopt;
  const auto& inputs = signature.inputs;
  const auto count = std::count_if(inputs.begin(), inputs.end(), could_be_picture);
  if (count != 1) {
    throw Error(ErrorCode::invalid_config,
                fmt::format("{} is given, but the model has {} that could be a picture: a tensor of rank 4",
                            place_of(*project), count == 0 ? "no input" : "several inputs"));
  }
  const SignatureEntry& entry = *std::find_if(inputs.begin(), inputs.end(), could_be_picture);
  PictureInput input{entry.name, *project->picture, sources};
  if (!input.recipe.type) input.recipe.type = entry.type.element;
  if (*input.recipe.type != entry.type.element) {
    throw Error(ErrorCode::invalid_config,
                fmt::format("{}: pictures become {}, and input '{}' takes {}", place_of(*project),
                            to_string(*input.recipe.type), entry.name, to_string(entry.type)));
  }
  const Shape shape = image::shape_of(input.recipe);
  for (std::size_t i = 1; entry.type.dimensions && i < shape.size(); ++i) {
    const auto& size = (*entry.type.dimensions)[i].size;
    if (!size || shape[i] < 0 || *size == shape[i]) continue;
    throw Error(ErrorCode::invalid_config,
                fmt::format("{}: pictures become {}, and input '{}' takes {}", place_of(*project), to_string(shape),
                            entry.name, to_string(entry.type)));
  }
  return input;
}

void append_picture(const PictureInput& input, std::string_view value, std::vector<Tensor>& pictures) {
  Tensor picture = image::read_picture(value, input.recipe, input.sources);
  if (!pictures.empty() && picture.shape() != pictures.front().shape()) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("picture {} becomes {}, and those before {}: give each in an object of its own",
                            pictures.size(), to_string(picture.shape()), to_string(pictures.front().shape())));
  }
  pictures.push_back(std::move(picture));
}

Tensor join_pictures(const PictureInput& input, std::vector<Tensor> pictures) {
  if (pictures.empty()) throw Error(ErrorCode::invalid_input, "there is no picture");
  if (pictures.size() == 1) return std::move(pictures.front());
  std::vector<NamedValues> items;
  BatchGroup group;
  for (Tensor& picture : pictures) {
    group.items.push_back(items.size());
    group.rows.push_back(1);
    items.push_back({{input.name, std::move(picture)}});
  }
  return *concatenate(items, group).front().second.tensor();
}

Tensor read_pictures(const PictureInput& input, std::span<const std::string> values) {
  std::vector<Tensor> pictures;
  for (const std::string& value : values) append_picture(input, value, pictures);
  return join_pictures(input, std::move(pictures));
}

}  // namespace gpux::runtime
