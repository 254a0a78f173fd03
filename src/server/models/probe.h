#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/models/model_repository.h"
#include "server/models/served_model.h"

namespace gpux::server {

struct ProbeLimits {
  std::chrono::milliseconds timeout{2000};  ///< a probe takes at most this
  std::chrono::milliseconds after{5000};    ///< a request that succeeded this lately stands for a probe
};

/// Asks the model for a tiny inference ahead of its queue, or takes a late success for one. Its run is in no
/// statistics. A model whose worker process is not ready does not answer. A model for which no inputs can be made
/// answers unless a run of it is overdue. `done` is called once with whether the device answers, on this thread or one
/// of the model's.
void probe(const std::shared_ptr<ServedModel>& model, const ProbeLimits& limits, std::function<void(bool)> done);

/// Probes all of them; `done` gets the names of those that do not answer, "a, b".
void probe_all(const std::vector<std::shared_ptr<ServedModel>>& models, const ProbeLimits& limits,
               std::function<void(const std::string&)> done);

/// Probes the model of the repository. One that was evicted is ready: the next request loads it again. Errors as of
/// ModelRepository::find_available().
void probe(const ModelRepository& repository, std::string_view name, std::string_view version,
           const ProbeLimits& limits, std::function<void(bool)> done);

/// Probes all that serves; `done` gets the names of required models that do not answer, are being loaded for the first
/// time or could not be loaded; of all that could not be loaded if no model serves. Evicted ones count as ready, also
/// while they are being loaded again.
void probe_all(const ModelRepository& repository, const ProbeLimits& limits,
               std::function<void(const std::string&)> done);

}  // namespace gpux::server
