#pragma once

#include <cstddef>

#include "server/protocols/openapi/operation.h"

/// OpenAPI operations of the routes in routes.h, and schemas of their fields.
namespace gpux::server::responses {

/// Maximum number of items that are listed at once, as OpenAI limits it.
inline constexpr std::size_t max_listed_items = 100;

/// FieldSchemas.
openapi::Json input_schema(const ServedList& models);
openapi::Json tools_schema(const ServedList& models);
openapi::Json tool_choice_schema(const ServedList& models);

Operation describe_create(const ServedList& models);
Operation describe_response(const ServedList& models);
Operation describe_deletion(const ServedList& models);
Operation describe_items(const ServedList& models);
Operation describe_token_count(const ServedList& models);

}  // namespace gpux::server::responses
