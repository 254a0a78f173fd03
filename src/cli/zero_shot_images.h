#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/label_flags.h"
#include "model/load_settings.h"
#include "project/project_file.h"

namespace gpux::cli {

/// The scores of labels for an image, all of length 1: activation(logit_scale * cosine + logit_bias), in the order of
/// the labels. Pure.
std::vector<double> zero_shot_image_scores(std::span<const float> image, std::span<const std::vector<float>> labels,
                                           const ZeroShotSettings& settings);

/// Whether the model has a text tower and an image tower. Errors as of locate().
bool has_image_tower(const std::string& model);

/// Prints {"image", "labels", "scores"} of each image, best label first; a list where there are several. Errors usage,
/// invalid_config (gpux.yml does not say how scores are made), as of open_encoder() and open_image_encoder().
void run_zero_shot_images(const std::string& model, const std::vector<std::string>& words, const LabelFlags& flags,
                          const LoadFlags& load, const std::string& timeout, const Context& context);

}  // namespace gpux::cli
