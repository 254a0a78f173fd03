#include "server/models/health_report.h"

namespace gpux::server {
namespace {

// Empty: none.
std::string_view problem_of(const ModelStatus& status) noexcept {
  switch (status.state) {
    case ModelState::failed:
      return "could not be loaded";
    case ModelState::queued:
    case ModelState::loading:
      return "is being loaded";
    case ModelState::ready:
    case ModelState::reloading:
      if (status.lacks_worker) return "its worker process is being started again";
      if (status.has_lost_device) return "its device can no longer be used by this process: restart the server";
      if (status.is_stuck) return "a run has not returned";
      if (status.devices_out == status.devices) return "all its devices have failed";
      if (status.lacks_some_worker) return "a worker process is being started again; the others serve";
      if (status.devices_out != 0) return "a device has failed; the others serve";
      return status.has_failed ? "could not be reloaded; the model loaded before serves" : "";
    case ModelState::evicted:
    case ModelState::restore_queued:
    case ModelState::restoring:
      return status.has_failed ? "could not be loaded again; a later request tries once more" : "";
    case ModelState::unloaded:
    case ModelState::unloading:
      break;
  }
  return "";
}

bool can_be_used(const ModelStatus& status) noexcept {
  if (status.lacks_worker || status.has_lost_device || status.devices_out == status.devices) return false;
  return is_serving(status.state) ? !status.is_stuck : is_on_demand(status.state) && !status.has_failed;
}

}  // namespace

std::string_view name_of(Health health) noexcept {
  switch (health) {
    case Health::healthy:
      return "healthy";
    case Health::degraded:
      return "degraded";
    case Health::unhealthy:
      return "unhealthy";
    case Health::stopping:
      return "stopping";
  }
  return "";
}

HealthReport health_of(std::span<const ModelStatus> models, bool accepts_requests) {
  HealthReport report;
  bool has_usable = false;
  for (const ModelStatus& status : models) {
    has_usable = has_usable || can_be_used(status);
    const std::string_view problem = problem_of(status);
    if (problem.empty()) continue;
    report.problems.push_back(
        {status.name + (status.version.empty() ? "" : " " + status.version), std::string(problem)});
  }
  if (!report.problems.empty()) report.health = has_usable ? Health::degraded : Health::unhealthy;
  if (!accepts_requests) report.health = Health::stopping;
  return report;
}

}  // namespace gpux::server
