#include "embedding/representation.h"

namespace gpux::embedding {

std::string_view name_of(Representation representation) noexcept {
  return representation_names.at(static_cast<std::size_t>(representation)).second;
}

TextRole role_of_prompt(std::string_view prompt_name) noexcept {
  return prompt_name == "query" ? TextRole::query : TextRole::document;
}

}  // namespace gpux::embedding
