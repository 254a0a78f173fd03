#pragma once

#include "server/protocols/openapi/operation.h"

/// What the routes of routes.h answer.
namespace gpux::server::openai {

/// As a FieldSchema: the messages of a chat.
openapi::Json messages_schema(const ServedList& models);

Operation describe_embeddings(const ServedList& models);

/// Of completions and chats.
Operation describe_generation(const ServedList& models);

}  // namespace gpux::server::openai
