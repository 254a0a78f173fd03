#pragma once

#include <filesystem>

namespace gpux::checkpoint {

/// Whether the folder is of onnxruntime-genai, or config.json names a model that generates text (…ForCausalLM,
/// GPT2LMHeadModel). A folder of sentence-transformers (modules.json) makes vectors with such a model.
[[nodiscard]] bool is_decoder_folder(const std::filesystem::path& folder);

}  // namespace gpux::checkpoint
