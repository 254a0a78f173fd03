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
/// An answer in lines with a status, or as one of them.
Operation describe_change(const ServedList& models);
/// An empty answer.
Operation describe_done(const ServedList& models);
/// The same, about the file with a digest.
Operation describe_found(const ServedList& models);
/// A file, and an empty answer with 201.
Operation describe_kept(const ServedList& models);
Operation describe_alive(const ServedList& models);

}  // namespace gpux::server::ollama
