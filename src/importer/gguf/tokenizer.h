#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "importer/gguf/metadata.h"
#include "importer/gguf/vocabulary.h"

namespace gpux::importer::gguf {

/// tokenizer.json for Hugging Face's library, which gives the same tokens as llama.cpp does with the file. Error
/// invalid_model: a pre-tokenizer that is not known, by name; merges or scores that make no tokenizer.
[[nodiscard]] std::string tokenizer_json(const Metadata& metadata, const Vocabulary& vocabulary);

/// tokenizer_config.json: the texts of special tokens, and chat templates that have a name.
[[nodiscard]] nlohmann::ordered_json tokenizer_config(const Metadata& metadata, const Vocabulary& vocabulary);

}  // namespace gpux::importer::gguf
