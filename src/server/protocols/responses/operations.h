#pragma once

#include "server/protocols/openapi/operation.h"

/// OpenAPI operations of the routes in routes.h, and schemas of their fields.
namespace gpux::server::responses {

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
