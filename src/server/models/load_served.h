#pragma once

#include "project/models_file.h"
#include "server/models/model_parts.h"
#include "server/models/serving_flags.h"

namespace gpux::server {

/// Loads a model as it is to be served, warm. Of what several places say a flag counts before the list of models, and
/// that before the model's gpux.yml. Errors: those of the load, and of settings that do not fit the model.
ModelParts load_served(const ListedModel& listed, const ServingFlags& flags);

}  // namespace gpux::server
