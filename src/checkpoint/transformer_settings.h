#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "checkpoint/json_settings.h"

namespace gpux::checkpoint {

/// The names of the settings of a Transformer module, in the order in which sentence-transformers looks for them.
inline constexpr std::array<const char*, 7> transformer_settings_files{
    "sentence_bert_config.json",      "sentence_roberta_config.json", "sentence_distilbert_config.json",
    "sentence_camembert_config.json", "sentence_albert_config.json",  "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json"};

/// The first of them in the folder that is no empty object. Error invalid_model.
JsonSettings transformer_settings(const std::filesystem::path& folder);

/// The tokens of a text that these settings allow; empty: they do not say.
std::optional<std::uint64_t> max_tokens_in(const JsonSettings& transformer);

/// Error invalid_model with the name of a setting that would change the tokens or the vectors and is not supported.
void require_supported(const JsonSettings& transformer);

}  // namespace gpux::checkpoint
