#include "generation/special_markers.h"

#include <array>
#include <optional>

namespace gpux::generation {

bool is_special_token(const std::string& token, const text::Tokenizer& tokenizer) {
  const std::optional<std::uint32_t> id = tokenizer.id(token);
  if (!id) return false;
  const std::array tokens{*id};
  return tokenizer.decode(tokens, true).empty() && !tokenizer.decode(tokens, false).empty();
}

std::vector<std::uint32_t> special_markers(const AnswerFormat& format, const text::Tokenizer& tokenizer) {
  std::vector<std::uint32_t> special;
  for (const std::string& marker : markers_of(format)) {
    const std::optional<std::uint32_t> id = tokenizer.id(marker);
    if (id && is_special_token(marker, tokenizer)) special.push_back(*id);
  }
  return special;
}

}  // namespace gpux::generation
