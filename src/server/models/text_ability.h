#pragma once

#include <cstdint>
#include <string_view>

#include "server/models/served_model.h"
#include "text/tokenizer.h"

namespace gpux::server {

/// Abilities of a model with texts and images.
enum class TextAbility : std::uint8_t {
  embed,         ///< vectors of texts
  embed_sparse,  ///< sparse vectors
  embed_tokens,  ///< vectors of their tokens
  classify,
  find_entities,     ///< token classification
  answer_questions,  ///< from a context
  rank,
  tokenize,
  embed_images,  ///< vectors of images
  generate,      ///< texts that continue others
  embed_any,     ///< embed or embed_images
  chat,          ///< generate, with a chat template
  any,           ///< embed, embed_sparse, classify, find_entities, answer_questions or rank
};

bool is_able(const ServedModel& model, TextAbility ability);

/// Describes, for errors, that a model lacks an ability: "makes no vectors of texts".
std::string_view lack_of(TextAbility ability) noexcept;

/// Settings with which the model ranks texts by token vectors; null if it does not.
const checkpoint::LateInteraction* late_interaction_of(const ServedModel& model) noexcept;

/// The model's; null where it reads no texts.
const text::Tokenizer* tokenizer_of(const ServedModel& model) noexcept;

}  // namespace gpux::server
