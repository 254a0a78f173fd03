#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/label_flags.h"
#include "model/load_settings.h"

namespace gpux::cli {

/// Prints {"image", "labels", "scores"} of each image, best label first; a list where there are several. Errors usage,
/// invalid_config (gpux.yml does not say how scores are made), as of open_encoder() and open_image_encoder().
/// `located`: what `model` means.
void run_zero_shot_images(const std::string& model, const LocatedModel& located, const std::vector<std::string>& words,
                          const LabelFlags& flags, const LoadRequest& load, const Context& context);

}  // namespace gpux::cli
