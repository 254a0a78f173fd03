#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generation/answer_format.h"
#include "text/tokenizer.h"

namespace gpux::generation {

/// Whether the vocabulary has the text as a special token: one that has no text where decoding skips those.
[[nodiscard]] bool is_special_token(const std::string& token, const text::Tokenizer& tokenizer);

/// The markers of a format that are special tokens: what EngineRequest::shown_tokens must have for AnswerParser.
[[nodiscard]] std::vector<std::uint32_t> special_markers(const AnswerFormat& format, const text::Tokenizer& tokenizer);

}  // namespace gpux::generation
