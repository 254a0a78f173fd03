#pragma once

#include "server/protocols/openapi/operation.h"

/// OpenAPI operations of the routes in routes.h.
namespace gpux::server::llama_cpp {

Operation describe_properties(const ServedList& models);
Operation describe_slots(const ServedList& models);
Operation describe_applied_template(const ServedList& models);
/// In each of the forms, text-embeddings-inference's too.
Operation describe_tokenize(const ServedList& models);
Operation describe_detokenize(const ServedList& models);

}  // namespace gpux::server::llama_cpp
