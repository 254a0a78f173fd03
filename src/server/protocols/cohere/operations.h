#pragma once

#include "server/protocols/openapi/operation.h"

/// OpenAPI operations of the routes in routes.h.
namespace gpux::server::cohere {

Operation describe_rank(const ServedList& models);

}  // namespace gpux::server::cohere
