#pragma once

#include <memory>

#include "cli/serve_flags.h"
#include "model/models_file.h"
#include "server/served_model.h"

namespace gpux::cli {

/// Loads a model as it is to be served, warm. Of what several places say a flag counts before the list of models, and
/// that before the model's gpux.yml. Errors: those of the load, and of settings that do not fit the model.
std::unique_ptr<server::ServedModel> load_served(const ListedModel& listed, const ServeFlags& flags);

}  // namespace gpux::cli
