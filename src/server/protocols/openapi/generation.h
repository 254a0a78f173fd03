#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "server/models/served_model.h"
#include "server/protocols/openapi/schema.h"
#include "server/text_ability.h"

/// What routes with generated texts take and give, and Ollama's routes.
namespace gpux::server::openapi {

/// What a model has to be able to for such a route; empty where the path is none, or is for all models.
std::optional<TextAbility> generation_ability_for(std::string_view path);

/// Request and answer of such a route; empty where the path is none. `models`: those that it may be for.
std::optional<std::pair<Json, Json>> generation_schemas(std::string_view path,
                                                        const std::vector<const ServedModel*>& models);

}  // namespace gpux::server::openapi
