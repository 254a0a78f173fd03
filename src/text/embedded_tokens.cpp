#include "text/embedded_tokens.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/in_quotes.h"
#include "gpux/error.h"

namespace gpux::text {

void require_embedded(std::span<const std::uint32_t> ids, std::size_t rows, const Tokenizer& tokenizer) {
  if (rows == 0) return;
  const auto found = std::ranges::find_if(ids, [&](std::uint32_t id) { return id >= rows; });
  if (found == ids.end()) return;
  const std::optional<std::string> name = tokenizer.token(*found);
  throw Error(
      ErrorCode::invalid_input,
      fmt::format("the text has the token {}{}; accepted: 0 to {}, the tokens that the model has embeddings for",
                  *found, name ? " " + in_quotes(*name) : "", rows - 1));
}

std::string note_on_embedded(const Tokenizer& tokenizer, std::size_t rows) {
  // Ids have no gaps: added tokens get the next ones.
  const std::size_t tokens = tokenizer.vocabulary_size();
  if (rows == 0 || tokens <= rows) return {};
  constexpr std::size_t max_names = 3;
  const std::size_t named = std::min(tokens - rows, max_names);
  std::string names;
  for (std::size_t i = 0; i < named; ++i) {
    const auto name = tokenizer.token(static_cast<std::uint32_t>(rows + i));
    if (!names.empty()) names += ", ";
    names += name ? in_quotes(*name) : std::to_string(rows + i);
  }
  if (tokens - rows > named) names += fmt::format(" and {} more", tokens - rows - named);
  return fmt::format("the tokenizer has {}, and the model has embeddings for the first {}: texts with {} are refused",
                     counted(tokens, "token"), rows, names);
}

}  // namespace gpux::text
