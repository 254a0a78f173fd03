#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace gpux::test {

/// A tokenizer as models of a family have it, with every byte, ASCII and `words` as tokens: "byte-level" (GPT-2, Llama
/// 3, Qwen), "stripping" (Llama 2: a text's first space is removed), "fallback" (Gemma), "metaspace" (T5, XLM-R; no
/// bytes: only characters of ASCII and of `words`). Its ids 0, 1 and 2 are special: <unk>, <s> and </s>.
std::string made_tokenizer(std::string_view family, const std::vector<std::string>& words);

/// The bytes that each token stands for, read from its text; empty for special ones. Not how the library reads them.
std::vector<std::string> words_of(const text::Tokenizer& tokenizer);

/// Tokens whose bytes are `text`, by chance one of the ways to cut it; empty where there is none.
std::vector<std::uint32_t> random_tokens(std::string_view text, const std::vector<std::string>& words,
                                         std::mt19937& random);

}  // namespace gpux::test
