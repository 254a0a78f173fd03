#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "text/tokenizer.h"

namespace gpux::generation {

/// Tokens that end a text though generation_config.json may not name them: `eos_token` of tokenizer_config.json, as in
/// vLLM, and the marker that the chat template writes behind an answer (<|im_end|>, <|eot_id|>), which llama.cpp knows
/// by its text. Those that the vocabulary has. A template that cannot be used has none. Errors invalid_model (a file
/// that is not what it should be), storage.
[[nodiscard]] std::vector<std::uint32_t> end_tokens_beside(const std::filesystem::path& folder,
                                                           const text::Tokenizer& tokenizer);

}  // namespace gpux::generation
