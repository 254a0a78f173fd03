#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "server/models/served_model.h"
#include "server/protocols/openapi/schema.h"
#include "server/text_ability.h"

/// What routes with texts and their vectors take and give.
namespace gpux::server::openapi {

/// What a model has to be able to for a route of vectors or scores; empty where the path is none.
std::optional<TextAbility> ability_for(std::string_view path);

/// Request and answer of such a route. `models`: those that it may be for, at least one.
std::pair<Json, Json> text_schemas(std::string_view path, const std::vector<const ServedModel*>& models);

/// A classifier's request, as text-embeddings-inference has it.
Json classify_schema();

/// A request for labels of images, as huggingface_hub has it.
Json image_labels_schema();

/// The names of the models, or null.
Json model_names(const std::vector<const ServedModel*>& models);

/// The id of a token that all of the models have.
Json token_schema(const std::vector<const ServedModel*>& models);

}  // namespace gpux::server::openapi
