#pragma once

#include <optional>
#include <string>

#include "text/tokenizer.h"

namespace gpux::generation {

/// The first token that two tokenizers number, spell or mark as special differently, for a message; empty: there is
/// none. Their rules for texts may differ: a draft model reads the tokens of the model.
std::optional<std::string> token_difference(const text::Tokenizer& model, const text::Tokenizer& draft);

/// Error usage: the draft model `name` has other tokens than the model.
void require_same_tokens(const text::Tokenizer& model, const text::Tokenizer& draft, const std::string& name);

}  // namespace gpux::generation
