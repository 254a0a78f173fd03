#include "importer/import_image_model.h"

#include <algorithm>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "base/files.h"
#include "base/format_message.h"
#include "checkpoint/class_labels.h"
#include "checkpoint/image_preprocessing.h"
#include "checkpoint/image_project.h"
#include "checkpoint/json_settings.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/sentence_model.h"
#include "checkpoint/setting_files.h"
#include "gpux/error.h"
#include "importer/families/vision.h"
#include "importer/graph/image_graph.h"
#include "importer/weights_of.h"
#include "onnx/text.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;

// Of the tensors that images become.
image::Size input_size(const image::Recipe& recipe, const fs::path& folder) {
  if (recipe.crop) return *recipe.crop;
  if (recipe.resize && recipe.resize->fit == image::Fit::stretch) return recipe.resize->size;
  throw Error(
      ErrorCode::invalid_model,
      format_message("'{}': the image processor makes images of sizes that differ; accepted: a size of height and "
                     "width, or crop_size",
                     file_at(folder)));
}

// A tensor that no tower has is part of another computation.
void refuse_unused(const checkpoint::Weights& weights, const std::set<std::string>& used, const VisionModel& model) {
  for (const std::string& name : weights.names()) {
    const bool is_ignored = std::any_of(model.ignored.begin(), model.ignored.end(),
                                        [&](const std::string& suffix) { return name.ends_with(suffix); });
    if (used.contains(name) || is_ignored) continue;
    throw Error(ErrorCode::invalid_model,
                fmt::format("the weights have a tensor {}, which a {} of transformers does not have", onnx::quote(name),
                            model.model_type));
  }
}

std::vector<std::string> copy_settings(const fs::path& folder, const fs::path& target) {
  std::vector<std::string> files = checkpoint::setting_files_in(folder);
  for (const char* name : {"preprocessor_config.json", "processor_config.json"}) {
    std::error_code unreadable;
    if (fs::is_regular_file(folder / name, unreadable)) files.emplace_back(name);
  }
  for (const std::string& file : files) write_file_atomically(target / file, read_file(folder / file));
  return files;
}

/// What is known of a model before an element of its weights is read.
struct DescribedImageModel {
  checkpoint::Safetensors weights;
  VisionModel model;
  image::Recipe recipe;
  image::Size size;  ///< of the tensors that images become
};

// What import_image_model() refuses because of the settings and the names and sizes of the tensors is refused here.
DescribedImageModel describe(const fs::path& folder) {
  checkpoint::Safetensors weights(weights_of(folder, folder));
  VisionModel model;
  try {
    model = describe_vision_model(read_file(folder / "config.json"), weights);
  } catch (const Error& error) {
    throw error.within({file_at(folder)});
  }
  image::Recipe recipe = checkpoint::read_image_preprocessing(folder);
  const image::Size size = input_size(recipe, folder);
  if (model.text) checkpoint::require_tokenizer(folder, folder);
  return {.weights = std::move(weights), .model = std::move(model), .recipe = std::move(recipe), .size = size};
}

}  // namespace

bool is_image_model(const fs::path& folder) {
  return is_vision_family(JsonSettings(folder / "config.json").text("model_type"));
}

std::uint64_t require_importable_image_model(const fs::path& folder) {
  const DescribedImageModel described = describe(folder);
  const VisionModel& model = described.model;
  std::set<std::string> used = write_image_model(described.weights, model.image, described.size, {});
  if (model.text) used.merge(write_text_tower(described.weights, *model.text, {}));
  refuse_unused(described.weights, used, model);
  return described.weights.float32_bytes();
}

ImportedModel import_image_model(const fs::path& folder, const fs::path& target) {
  const DescribedImageModel described = describe(folder);
  const checkpoint::Weights& weights = described.weights;
  const VisionModel& model = described.model;
  const JsonSettings config(folder / "config.json");
  checkpoint::ImageProject project;
  project.name = fs::weakly_canonical(folder).filename().string();
  project.recipe = described.recipe;
  const image::Size size = described.size;
  const Transformer& layers = model.image.transformer;
  const bool is_classifier = model.image.head.kind == ImageHeadKind::classification;
  ImportedModel imported{.family = model.model_type,
                         .layers = static_cast<std::int64_t>(layers.layers.size()),
                         .heads = layers.heads,
                         .width = layers.hidden_size,
                         .max_tokens = 0,
                         .pooling = {},
                         .normalize = model.text.has_value(),
                         .task = is_classifier ? "image classification" : "",
                         .labels = is_classifier ? model.image.head.dense.out : 0,
                         .copied = copy_settings(folder, target),
                         .image_height = size.height,
                         .image_width = size.width};
  project.files = imported.copied;
  std::set<std::string> used;
  if (model.text) {
    project.source = "text_model.onnx";
    project.image_tower = "vision_model.onnx";
    project.zero_shot = checkpoint::read_zero_shot_scale(folder);
    used = write_text_tower(weights, *model.text, target / project.source);
    used.merge(write_image_model(weights, model.image, size, target / project.image_tower));
    imported.max_tokens = checkpoint::read_sentence_settings(folder).max_tokens;
  } else {
    project.source = "model.onnx";
    used = write_image_model(weights, model.image, size, target / project.source);
  }
  refuse_unused(weights, used, model);
  if (is_classifier) {
    project.labels = checkpoint::class_labels_in(config);
    if (!project.labels.empty()) {
      project.labelled_output = "logits";
      project.labelled_type = "float32";
      project.is_multi_label = config.text("problem_type") == "multi_label_classification";
    }
  }
  write_file_atomically(target / "gpux.yml", checkpoint::project_text(project));
  return imported;
}

}  // namespace gpux::importer
