#pragma once

#include "server/protocols/openapi/operation.h"

/// What the routes of routes.h take and give.
namespace gpux::server::openai {

Operation describe_embeddings(const ServedList& models);
Operation describe_completions(const ServedList& models);
Operation describe_chat(const ServedList& models);

}  // namespace gpux::server::openai
