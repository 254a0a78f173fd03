#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/json_settings.h"

namespace gpux::checkpoint {

/// tokenizer.json with the end token behind each text, where tokenizer_config.json says `add_eos_token: true` and the
/// post-processor does not append it: transformers appends it then when it loads the tokenizer. Empty where nothing
/// changes. Error invalid_model: eos_token is not a token of the tokenizer, or tokenizer.json is no JSON object.
std::optional<std::string> with_end_token(std::string_view tokenizer_json, const JsonSettings& tokenizer_config);

}  // namespace gpux::checkpoint
