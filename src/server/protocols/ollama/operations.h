#pragma once

#include "server/protocols/openapi/operation.h"

/// OpenAPI operations of the routes in routes.h.
namespace gpux::server::ollama {

/// JSON schema of the messages of a chat; a FieldSchema.
openapi::Json messages_schema(const ServedList& models);

Operation describe_chat(const ServedList& models);
Operation describe_generate(const ServedList& models);
Operation describe_embed(const ServedList& models);
Operation describe_embeddings(const ServedList& models);
Operation describe_alive(const ServedList& models);

}  // namespace gpux::server::ollama
