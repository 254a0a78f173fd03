#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpux/label_score.h"
#include "gpux/zero_shot_images.h"
#include "model/open_encoder.h"

/// Labels of the caller's choice for images, of a model with a text tower and an image tower.
namespace gpux {

/// How the model scores images by the labels. Errors invalid_input (the labels or the template), usage (the model has
/// no towers), invalid_config (its gpux.yml does not say how scores are made).
[[nodiscard]] ZeroShotSettings zero_shot_settings(const LocatedModel& located, const ZeroShotImageOptions& labels);

/// Labels as vectors that vectors of images are compared with.
struct LabelVectors {
  std::vector<std::string> labels;
  ZeroShotSettings settings;
  std::vector<std::vector<float>> vectors;

  /// All labels of an image, best first.
  [[nodiscard]] std::vector<LabelScore> scores(std::span<const float> image) const;
};

/// Embeds the labels with the text tower, which is loaded for it. Errors as of open_encoder().
[[nodiscard]] LabelVectors embed_labels(const EncoderFlags& flags, const ZeroShotImageOptions& labels,
                                        const ZeroShotSettings& settings, const Teller& tell);

}  // namespace gpux
