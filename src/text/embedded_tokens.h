#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "text/tokenizer.h"

/// Tokens against the rows of a model's embeddings: a tokenizer may have more than the model, which cannot take them.
namespace gpux::text {

/// Error invalid_input, which names the token, if one of `ids` has no row. `rows` 0: their number is not known, and all
/// are accepted.
void require_embedded(std::span<const std::uint32_t> ids, std::size_t rows, const Tokenizer& tokenizer);

/// How many tokens of the tokenizer have no row, and the names of at most three of them, as a line for users. Empty if
/// all have one, or `rows` is 0.
std::string note_on_embedded(const Tokenizer& tokenizer, std::size_t rows);

}  // namespace gpux::text
