#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/model_repository.h"
#include "server/served_model.h"

namespace gpux::server {

struct ProbeLimits {
  std::chrono::milliseconds timeout{2000};  ///< a probe takes at most this
  std::chrono::milliseconds after{5000};    ///< a request that succeeded this lately stands for a probe
};

/// Asks the model for a tiny inference ahead of its queue, or takes a late success for one. A model for which no inputs
/// can be made answers unless a run of it is overdue. `done` is called once with whether the device answers, on this
/// thread or one of the model's.
void probe(const std::shared_ptr<ServedModel>& model, const ProbeLimits& limits, std::function<void(bool)> done);

/// Probes all of them; `done` gets the names of those that do not answer, "a, b".
void probe_all(const std::vector<std::shared_ptr<ServedModel>>& models, const ProbeLimits& limits,
               std::function<void(const std::string&)> done);

/// Probes all that is loaded; `done` gets the names of what does not answer, is being loaded or could not be loaded.
void probe_all(const ModelRepository& repository, const ProbeLimits& limits,
               std::function<void(const std::string&)> done);

}  // namespace gpux::server
