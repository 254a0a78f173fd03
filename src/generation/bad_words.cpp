#include "generation/bad_words.h"

#include <algorithm>
#include <limits>

namespace gpux::generation {

BadWords::BadWords(const text::Tokenizer& tokenizer, std::span<const std::string> words) {
  for (const std::string& word : words) {
    for (const std::string& text : {word, " " + word}) {
      const text::Encoding encoding = tokenizer.encode(text, {.special_tokens = false});
      std::vector<std::uint32_t> sequence(encoding.ids().begin(), encoding.ids().end());
      if (!sequence.empty()) sequences_.push_back(std::move(sequence));
    }
  }
}

void BadWords::apply(std::span<float> logits, std::span<const std::uint32_t> generated) const {
  for (const std::vector<std::uint32_t>& sequence : sequences_) {
    const std::span<const std::uint32_t> before = std::span(sequence).first(sequence.size() - 1);
    if (before.size() > generated.size() || sequence.back() >= logits.size()) continue;
    if (std::ranges::equal(before, generated.last(before.size()))) {
      logits[sequence.back()] = -std::numeric_limits<float>::infinity();
    }
  }
}

}  // namespace gpux::generation
