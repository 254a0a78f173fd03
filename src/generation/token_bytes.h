#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace gpux::generation {

/// How a vocabulary spells bytes: byte-level BPE has a letter for each (Radford et al. 2019), SentencePiece has U+2581
/// for a space and <0x0A> for a byte that is no text.
enum class TokenSpelling : std::uint8_t { byte_level, sentence_piece };

TokenSpelling token_spelling(const text::Tokenizer& tokenizer);

/// The bytes that a token of the vocabulary stands for; they may be a part of a character.
std::string token_bytes(std::string_view token, TokenSpelling spelling);

}  // namespace gpux::generation
