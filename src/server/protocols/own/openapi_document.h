#pragma once

#include <memory>
#include <span>
#include <string>

#include "server/models/served_model.h"
#include "server/protocols/route.h"

namespace gpux::server {

/// The routes as an OpenAPI 3.1 document, with the models' signatures as schemas of their requests and answers.
/// `default_model`: of routes without a name; empty: none.
std::string openapi_json(std::span<const std::shared_ptr<ServedModel>> models, const std::string& default_model,
                         std::span<const Route> routes, bool keys_are_set);

/// The OpenAPI document as an HTML page without external resources.
std::string openapi_page(std::span<const std::shared_ptr<ServedModel>> models, const std::string& default_model,
                         std::span<const Route> routes, bool keys_are_set);

}  // namespace gpux::server
