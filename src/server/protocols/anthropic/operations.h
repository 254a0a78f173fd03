#pragma once

#include "server/protocols/openapi/operation.h"

/// OpenAPI operations of the routes in routes.h, and schemas of their fields.
namespace gpux::server::anthropic {

/// FieldSchemas.
openapi::Json messages_schema(const ServedList& models);
openapi::Json system_schema(const ServedList& models);
openapi::Json tools_schema(const ServedList& models);
openapi::Json tool_choice_schema(const ServedList& models);
openapi::Json thinking_schema(const ServedList& models);
openapi::Json stop_schema(const ServedList& models);

Operation describe_message(const ServedList& models);
Operation describe_token_count(const ServedList& models);

}  // namespace gpux::server::anthropic
