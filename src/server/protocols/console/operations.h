#pragma once

#include "server/protocols/openapi/operation.h"

/// OpenAPI operations of the routes in routes.h.
namespace gpux::server::console {

Operation describe_page(const ServedList& models);
Operation describe_file(const ServedList& models);
Operation describe_state(const ServedList& models);
Operation describe_records(const ServedList& models);

}  // namespace gpux::server::console
