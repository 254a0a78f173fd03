#include "server/models/health_report.h"

#include <gtest/gtest.h>

namespace gpux::server {
namespace {

ModelStatus status(const char* name, ModelState state, bool has_failed = false, bool is_stuck = false) {
  return {.name = name, .version = "1", .state = state, .reason = "", .has_failed = has_failed, .is_stuck = is_stuck};
}

ModelStatus without_worker(const char* name) {
  ModelStatus model = status(name, ModelState::ready);
  model.lacks_worker = true;
  return model;
}

ModelStatus without_some_worker(const char* name) {
  ModelStatus model = status(name, ModelState::ready);
  model.lacks_some_worker = true;
  return model;
}

ModelStatus with_devices(const char* name, std::size_t devices, std::size_t out) {
  ModelStatus model = status(name, ModelState::ready);
  model.devices = devices;
  model.devices_out = out;
  return model;
}

TEST(HealthReport, IsDerivedFromTheModels) {
  struct Row {
    std::vector<ModelStatus> models;
    bool accepts_requests;
    Health health;
    std::vector<std::string> problems;
  };

  using enum ModelState;
  const std::vector<Row> rows{
      {{}, true, Health::healthy, {}},
      {{status("a", ready), status("b", evicted)}, true, Health::healthy, {}},
      {{status("a", ready), status("b", unloaded)}, true, Health::healthy, {}},
      {{status("a", restoring)}, true, Health::healthy, {}},
      {{status("a", ready), status("b", failed, true)}, true, Health::degraded, {"b 1: could not be loaded"}},
      {{status("a", ready, true)},
       true,
       Health::degraded,
       {"a 1: could not be reloaded; the model loaded before serves"}},
      {{status("a", evicted, true), status("b", ready)},
       true,
       Health::degraded,
       {"a 1: could not be loaded again; a later request tries once more"}},
      {{status("a", failed, true)}, true, Health::unhealthy, {"a 1: could not be loaded"}},
      {{status("a", ready, false, true)}, true, Health::unhealthy, {"a 1: a run has not returned"}},
      {{without_worker("a")}, true, Health::unhealthy, {"a 1: its worker process is being started again"}},
      {{without_worker("a"), status("b", ready)},
       true,
       Health::degraded,
       {"a 1: its worker process is being started again"}},
      {{without_some_worker("a")},
       true,
       Health::degraded,
       {"a 1: a worker process is being started again; the others serve"}},
      {{with_devices("a", 4, 0)}, true, Health::healthy, {}},
      {{with_devices("a", 4, 3)}, true, Health::degraded, {"a 1: a device has failed; the others serve"}},
      {{with_devices("a", 4, 4)}, true, Health::unhealthy, {"a 1: all its devices have failed"}},
      {{with_devices("a", 2, 2), status("b", ready)}, true, Health::degraded, {"a 1: all its devices have failed"}},
      {{status("a", loading)}, true, Health::unhealthy, {"a 1: is being loaded"}},
      {{status("a", ready)}, false, Health::stopping, {}},
  };
  for (const Row& row : rows) {
    const HealthReport report = health_of(row.models, row.accepts_requests);
    EXPECT_EQ(name_of(report.health), name_of(row.health));
    std::vector<std::string> problems;
    for (const ModelProblem& one : report.problems) problems.push_back(one.model + ": " + one.problem);
    EXPECT_EQ(problems, row.problems);
  }
}

}  // namespace
}  // namespace gpux::server
