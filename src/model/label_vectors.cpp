#include "model/label_vectors.h"

#include <fmt/format.h>

#include "gpux/error.h"
#include "pipeline/zero_shot_images.h"

namespace gpux {

ZeroShotSettings zero_shot_settings(const LocatedModel& located, const ZeroShotImageOptions& labels) {
  if (!located.project || !has_image_tower(located)) {
    throw Error(
        ErrorCode::usage,
        fmt::format("'{}' has no text tower and image tower: it does not score images by labels", located.name));
  }
  if (!located.project->zero_shot) {
    throw Error(ErrorCode::invalid_config,
                fmt::format("{}: scores of labels require 'zero_shot' with the model's logit_scale, which its ONNX "
                            "files do not have; a folder with model.safetensors is imported with it",
                            located.project->file.string()));
  }
  ZeroShotSettings settings = *located.project->zero_shot;
  if (!labels.label_template.empty()) settings.label_template = labels.label_template;
  pipeline::check_image_labels(labels.labels, settings.label_template);
  return settings;
}

std::vector<LabelScore> LabelVectors::scores(std::span<const float> image) const {
  return pipeline::zero_shot_image_scores(image, vectors, labels, settings);
}

LabelVectors embed_labels(const EncoderFlags& flags, const ZeroShotImageOptions& labels,
                          const ZeroShotSettings& settings, const Teller& tell) {
  LabelVectors made{.labels = labels.labels, .settings = settings, .vectors = {}};
  const OpenEncoder texts = open_encoder(flags, tell);
  for (const std::string& text : pipeline::image_label_texts(labels.labels, settings.label_template)) {
    made.vectors.push_back(texts.embedder->embed(text, texts.options));
  }
  return made;
}

}  // namespace gpux
