#pragma once

#include "gpux/model.h"
#include "model/load_settings.h"

namespace gpux {

/// The options as resolve_load() takes them.
LoadFlags load_flags_of(const ModelOptions& options);

/// "1500ms"; empty where there is none.
std::string timeout_of(const ModelOptions& options);

}  // namespace gpux
