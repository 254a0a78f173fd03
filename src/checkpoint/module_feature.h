#pragma once

#include <string_view>

#include "checkpoint/json_settings.h"

namespace gpux::checkpoint {

/// What a module of sentence-transformers reads and writes: the vector of a text, or those of its tokens.
inline constexpr std::string_view sentence_feature = "sentence_embedding", token_feature = "token_embeddings";

/// Error invalid_model where module_input_name or module_output_name of the module's settings is another feature.
void require_feature(const JsonSettings& module, std::string_view feature);

}  // namespace gpux::checkpoint
