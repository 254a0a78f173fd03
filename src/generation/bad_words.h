#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace gpux::generation {

/// Texts whose tokens are not generated one after the other: those of the text alone, and those that it has behind a
/// space. Other tokens that make the same text are not found. Source: `bad_words` of vLLM.
class BadWords {
 public:
  /// Error invalid_input: a text is no UTF-8.
  BadWords(const text::Tokenizer& tokenizer, std::span<const std::string> words);

  /// Gives each token that would complete one of them behind the generated ones the logit minus infinity.
  void apply(std::span<float> logits, std::span<const std::uint32_t> generated) const;

 private:
  std::vector<std::vector<std::uint32_t>> sequences_;
};

}  // namespace gpux::generation
