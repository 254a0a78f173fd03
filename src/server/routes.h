#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/http/message.h"
#include "server/protocols/route.h"

namespace gpux::server {

/// All routes, in the order in which they are tried and documented.
[[nodiscard]] std::span<const Route> all_routes();

/// The route that matches a request, with the parameters of its path.
struct RouteMatch {
  const Route* route = nullptr;              ///< null: none
  std::optional<std::string> name, version;  ///< of the path
  std::optional<std::string> id;             ///< of the path
  std::vector<std::string> allowed;          ///< methods of the path, where it is known and the method is not
  Protocol protocol = Protocol::own;         ///< in which errors are written
};

/// Finds the route of a request by method and path. Pure.
[[nodiscard]] RouteMatch match_route(const http::Request& request);

}  // namespace gpux::server
