#pragma once

#include <string_view>

#include "checkpoint/json_settings.h"

namespace gpux::checkpoint {

/// Names of the features that modules of sentence-transformers read and write: the vector of a text, and the vectors of
/// its tokens.
inline constexpr std::string_view sentence_feature = "sentence_embedding", token_feature = "token_embeddings";

/// Checks the feature of a module. Error invalid_model if module_input_name or module_output_name of the module's
/// settings is another feature.
void require_feature(const JsonSettings& module, std::string_view feature);

}  // namespace gpux::checkpoint
