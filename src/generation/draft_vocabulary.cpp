#include "generation/draft_vocabulary.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "base/format_message.h"
#include "generation/special_markers.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

constexpr std::uint32_t max_tokens = std::uint32_t{1} << 22;

std::string spelled(const std::optional<std::string>& token) {
  return token ? fmt::format("'{}'", *token) : "missing";
}

}  // namespace

std::optional<std::string> token_difference(const text::Tokenizer& model, const text::Tokenizer& draft) {
  if (model == draft) return std::nullopt;
  // Numbers may be left out.
  const std::size_t count = std::max(model.vocabulary_size(), draft.vocabulary_size());
  std::size_t found = 0;
  for (std::uint32_t id = 0; found < count && id < max_tokens; ++id) {
    const std::optional<std::string> own = model.token(id), other = draft.token(id);
    if (own) ++found;
    if (own != other) {
      return fmt::format("token {} is {} in the model and {} in the draft model", id, spelled(own), spelled(other));
    }
    if (!own) continue;
    const bool is_special = is_special_token(*own, model);
    if (is_special != is_special_token(*own, draft)) {
      return fmt::format("token {}, '{}', is special in the {} alone", id, *own, is_special ? "model" : "draft model");
    }
  }
  return std::nullopt;
}

void require_same_tokens(const text::Tokenizer& model, const text::Tokenizer& draft, const std::string& name) {
  const std::optional<std::string> difference = token_difference(model, draft);
  if (!difference) return;
  throw Error(ErrorCode::usage,
              format_message("{} is '{}', which has other tokens: {}; accepted: a model with the same tokens",
                             setting_named("draft"), name, *difference));
}

}  // namespace gpux::generation
