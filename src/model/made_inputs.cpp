#include "model/made_inputs.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <random>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/spelling.h"
#include "embedding/recorded_texts.h"
#include "image/prepare.h"

namespace gpux {
namespace {

using Sizes = std::vector<std::pair<std::string, std::int64_t>>;

const Dimension* free_dimension(const SignatureEntry& entry, std::size_t index) {
  const bool has_it = entry.type.dimensions && index < entry.type.dimensions->size();
  const Dimension* dimension = has_it ? &entry.type.dimensions->at(index) : nullptr;
  return dimension != nullptr && !dimension->size ? dimension : nullptr;
}

// The texts that the task asks for, as the tokenizer makes inputs of them; empty where it takes other inputs as well.
NamedValues inputs_of_texts(const pipeline::Pipeline& pipeline, std::uint64_t seed) {
  const auto texts = embedding::recorded_texts();
  NamedValues given;
  for (const SignatureEntry& entry : pipeline.text_inputs()) {
    if (!entry.required) continue;
    if (entry.type.element != ElementType::string) return {};
    const std::string_view text = texts[(seed + texts.size() / 2 + given.size()) % texts.size()];
    given.emplace_back(entry.name, Tensor::of_strings({1}, {std::string(text)}));
  }
  return std::move(pipeline.prepare(given).parts.front().inputs);
}

// As large as the recipe makes images; empty where it leaves that to the image.
std::optional<Tensor> input_of_image(const image::Recipe& recipe, std::uint64_t seed) {
  std::optional<image::Size> size = recipe.crop;
  if (recipe.resize) size = recipe.resize->size;
  if (!size) return std::nullopt;
  image::Image image(*size, image::channels_of(recipe.color));
  std::mt19937_64 random(seed);
  std::generate_n(image.row(0), image.byte_size(), [&] { return static_cast<std::uint8_t>(random()); });
  return image::prepare(image, recipe);
}

// "input.index" of the free dimensions whose sizes gpux.yml declares.
Sizes declared_sizes(const OpenModel& model) {
  Sizes sizes;
  for (const SizeFacts::Declared& declared : model.sizes().declared) {
    const auto entry = std::ranges::find(model.info.signature.inputs, declared.input, &SignatureEntry::name);
    if (entry == model.info.signature.inputs.end() || free_dimension(*entry, declared.dimension) == nullptr) continue;
    sizes.emplace_back(fmt::format("{}.{}", declared.input, declared.dimension), declared.size);
  }
  return sizes;
}

// "input.index" of the free dimensions of the input that takes this image.
Sizes sizes_of_image(const Signature& signature, const std::string& name, const Tensor& image) {
  Sizes sizes;
  const auto entry = std::ranges::find(signature.inputs, name, &SignatureEntry::name);
  for (std::size_t i = 0; entry != signature.inputs.end() && i < image.shape().size(); ++i) {
    if (free_dimension(*entry, i) != nullptr) sizes.emplace_back(fmt::format("{}.{}", name, i), image.shape()[i]);
  }
  return sizes;
}

std::vector<std::string> assumed_sizes(const Signature& signature, const Sizes& sizes) {
  std::vector<std::string> assumed;
  for (const SignatureEntry& entry : signature.inputs) {
    if (!entry.required || !entry.type.dimensions) continue;
    for (std::size_t i = 0; i < entry.type.dimensions->size(); ++i) {
      const Dimension* dimension = free_dimension(entry, i);
      if (dimension == nullptr) continue;
      const std::string place = fmt::format("{}.{}", entry.name, i);
      const std::string name = dimension->name.empty() ? place : dimension->name;
      const bool is_said =
          std::ranges::any_of(sizes, [&](const auto& size) { return size.first == place || size.first == name; });
      if (!is_said && std::ranges::find(assumed, name) == assumed.end()) assumed.push_back(name);
    }
  }
  return assumed;
}

}  // namespace

MadeInputs make_inputs(OpenModel& model, const Sizes& sizes, std::uint64_t seed) {
  const Signature& signature = model.info.signature;
  if (sizes.empty()) {
    model.open_inputs();
    if (model.pipeline) {
      if (NamedValues values = inputs_of_texts(*model.pipeline, seed); !values.empty()) {
        return {.values = std::move(values), .assumed = {}};
      }
    }
  } else {
    model.open_image_input();
  }
  // The first that is said of a dimension counts.
  Sizes all = sizes;
  std::ranges::copy(declared_sizes(model), std::back_inserter(all));
  std::optional<Tensor> image;
  std::string image_input;
  if (model.image_input) {
    image_input = model.image_input->name;
    image = input_of_image(model.image_input->recipe, seed);
  }
  if (image) std::ranges::copy(sizes_of_image(signature, image_input, *image), std::back_inserter(all));
  MadeInputs made{.values = synthetic_inputs(signature, all, seed), .assumed = assumed_sizes(signature, all)};
  if (!image) return made;
  for (auto& [name, value] : made.values) {
    const Tensor* const tensor = value.tensor();
    const bool is_image = tensor != nullptr && tensor->shape() == image->shape();
    if (name == image_input && (sizes.empty() || is_image)) value = *image;
  }
  return made;
}

std::optional<Error> naming_assumed_sizes(const Error& error, const MadeInputs& inputs) {
  const bool may_be_the_reason = error.code() == ErrorCode::invalid_input || error.code() == ErrorCode::invalid_model;
  if (inputs.assumed.empty() || !may_be_the_reason) return std::nullopt;
  return error.followed_by(format_message(
      "; in made-up inputs, dimensions whose size the model leaves open are 1: {} NAME=SIZE of bench and verify sets "
      "sizes ({}), {} gives other inputs",
      setting_named("dim"), join(inputs.assumed), setting_named("input")));
}

}  // namespace gpux
