#pragma once

#include "server/protocols/openapi/operation.h"

/// OpenAPI operations of the routes in routes.h.
namespace gpux::server::openai {

/// JSON schema of the messages of a chat; a FieldSchema.
openapi::Json messages_schema(const ServedList& models);

Operation describe_embeddings(const ServedList& models);

/// OpenAPI operation of completions and chats.
Operation describe_generation(const ServedList& models);

}  // namespace gpux::server::openai
