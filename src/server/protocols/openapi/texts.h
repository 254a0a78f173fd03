#pragma once

#include <cstddef>

#include "server/models/text_ability.h"
#include "server/protocols/openapi/operation.h"

/// Schemas of texts, tokens and vectors, as several protocols have them.
namespace gpux::server::openapi {

/// Schema of a model name, one of these models, or null.
Json model_names(const ServedList& models);

/// Schema of the name of a prompt that all of the models have, or null; a JSON null if there is none.
Json prompt_names(const ServedList& models);

/// Schema of a token id that all of the models have.
Json token_schema(const ServedList& models);

/// Schema of a number of dimensions, from 1 to what all of the models have, or null.
Json dimensions_schema(const ServedList& models);

/// Schema of a list with as many items as a request may have texts.
Json list_of(Json items);

/// Schema of one text (`text`), its tokens, or a list of either.
Json text_or_tokens(const Json& text, const ServedList& models);

bool any_is(const ServedList& models, TextAbility ability);

}  // namespace gpux::server::openapi
