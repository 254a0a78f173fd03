#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace gpux::generation {

/// The special tokens with which a model writes the text between a prefix and a suffix ("fill in the middle").
struct InfillFormat {
  std::uint32_t prefix = 0, suffix = 0;  ///< before the texts
  std::optional<std::uint32_t> middle;   ///< before the answer; empty: it follows the prefix
  bool suffix_comes_first = false;
  std::vector<std::uint32_t> end_tokens;  ///< end the answer, besides the model's own
};

/// Found by the names that published families of models give their tokens. Empty where the vocabulary has none of
/// them. Sources: the model cards and tokenizers of StarCoder, Granite Code, Qwen2.5-Coder, CodeGemma, DeepSeek-Coder,
/// CodeGeeX4, Seed-Coder and Codestral. Pure.
[[nodiscard]] std::optional<InfillFormat> infill_format_of(const text::Tokenizer& tokenizer);

/// The prompt for the text between them, UTF-8. `adds_special_tokens`: begins with what the tokenizer adds before a
/// text. Error invalid_input.
[[nodiscard]] std::vector<std::uint32_t> infill_prompt(const text::Tokenizer& tokenizer, const InfillFormat& format,
                                                       std::string_view prefix, std::string_view suffix,
                                                       bool adds_special_tokens = true);

}  // namespace gpux::generation
