#pragma once

#include "server/protocols/openapi/operation.h"

/// OpenAPI operations of the routes in routes.h.
namespace gpux::server::kserve {

/// The schema of `instances` for one of these models.
openapi::Json instances_schema(const ServedList& models);

Operation describe_predict(const ServedList& models);

}  // namespace gpux::server::kserve
