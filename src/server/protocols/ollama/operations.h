#pragma once

#include "server/protocols/openapi/operation.h"

/// What the routes of routes.h take and give.
namespace gpux::server::ollama {

Operation describe_chat(const ServedList& models);
Operation describe_generate(const ServedList& models);
Operation describe_embed(const ServedList& models);
Operation describe_embeddings(const ServedList& models);
Operation describe_show(const ServedList& models);
Operation describe_alive(const ServedList& models);

}  // namespace gpux::server::ollama
