#pragma once

#include "server/protocols/openapi/operation.h"

/// OpenAPI operations of the routes in routes.h.
namespace gpux::server::own {

Operation describe_predict(const ServedList& models);
Operation describe_metrics(const ServedList& models);
Operation describe_page(const ServedList& models);

}  // namespace gpux::server::own
