#pragma once

#include "server/protocols/openapi/operation.h"

/// What the routes of routes.h answer.
namespace gpux::server::ollama {

/// As a FieldSchema: the messages of a chat.
openapi::Json messages_schema(const ServedList& models);

Operation describe_chat(const ServedList& models);
Operation describe_generate(const ServedList& models);
Operation describe_embed(const ServedList& models);
Operation describe_embeddings(const ServedList& models);
Operation describe_alive(const ServedList& models);

}  // namespace gpux::server::ollama
