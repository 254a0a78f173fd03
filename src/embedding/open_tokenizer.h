#pragma once

#include <filesystem>

#include "text/tokenizer.h"

namespace gpux::embedding {

/// The tokenizer of a tokenizer.json as the files next to it change it. Errors of text::Tokenizer::from_file() and
/// checkpoint::tokenizer_changes().
text::Tokenizer open_tokenizer(const std::filesystem::path& tokenizer_json);

}  // namespace gpux::embedding
