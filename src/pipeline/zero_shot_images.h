#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/label_score.h"
#include "project/project_file.h"

/// Labels of the caller's choice for images, by a model whose vectors of texts and images are comparable (CLIP,
/// SigLIP). Source: ZeroShotImageClassificationPipeline of Hugging Face's transformers. All functions are pure.
namespace gpux::pipeline {

/// Error invalid_input: there are no labels, one is empty or occurs twice, or the template has no {}.
void check_image_labels(std::span<const std::string> labels, std::string_view label_template);

/// The text of each label: the template, with the label in place of "{}".
[[nodiscard]] std::vector<std::string> image_label_texts(std::span<const std::string> labels,
                                                         std::string_view label_template);

/// The labels of an image, best first: activation(logit_scale * cosine + logit_bias). `image` and `label_vectors`, of
/// the texts of `labels`, have length 1 and equal numbers of elements.
[[nodiscard]] std::vector<LabelScore> zero_shot_image_scores(std::span<const float> image,
                                                             std::span<const std::vector<float>> label_vectors,
                                                             std::span<const std::string> labels,
                                                             const ZeroShotSettings& settings);

}  // namespace gpux::pipeline
