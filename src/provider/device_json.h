#pragma once

#include <nlohmann/json.hpp>

#include "gpux/verdict.h"

namespace gpux::provider {

/// One object for each device, wherever devices are printed. What is not known is left out, but the name and vendor.
nlohmann::ordered_json to_json(const Device& device);

}  // namespace gpux::provider
