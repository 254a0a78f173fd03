#pragma once

#include <vector>

#include "cli/serve_flags.h"
#include "server/model_repository.h"

namespace gpux::cli {

/// What the flags say is to be served, as it is on the disk now: the models named, and those in --repository, a folder
/// of DIR/NAME/VERSION/model.onnx, of which each model's highest version counts.
/// Errors usage (two of one name and version, flags that cannot be), and those of looking.
std::vector<server::ModelSource> served_models(const ServeFlags& flags);

}  // namespace gpux::cli
