#pragma once

#include <string>
#include <vector>

#include "checkpoint/json_settings.h"

namespace gpux::checkpoint {

/// "id2label" of a config.json, {"0": "NEGATIVE", "1": "POSITIVE"}, by number; empty where it has none. Error
/// invalid_model where it is not one text for each number from 0.
[[nodiscard]] std::vector<std::string> class_labels_in(const JsonSettings& config);

/// The first of config.json's "architectures" ("CLIPModel"); may be empty.
[[nodiscard]] std::string architecture_in(const JsonSettings& config);

}  // namespace gpux::checkpoint
