#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/models/model_repository.h"

namespace gpux::server {

enum class Health : std::uint8_t {
  healthy,    ///< every model can be used
  degraded,   ///< some can, some cannot
  unhealthy,  ///< there are models, and none of them can be used
  stopping,   ///< the server is shutting down
};

struct ModelProblem {
  std::string model;    ///< "name", or "name version" where it has one
  std::string problem;  ///< without paths
};

struct HealthReport {
  Health health = Health::healthy;
  std::vector<ModelProblem> problems;
};

/// Name of the health: "healthy" …
std::string_view name_of(Health health) noexcept;

/// The health that GET /health reports, determined without running a model. A model that was taken out of service on
/// request, or that is loaded on demand, is no problem; one whose reload failed is one although the old one serves.
/// Causes are named by kind only, as the route needs no key.
HealthReport health_of(std::span<const ModelStatus> models, bool accepts_requests);

}  // namespace gpux::server
