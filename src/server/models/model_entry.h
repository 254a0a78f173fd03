#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpux/error.h"
#include "server/models/model_description.h"
#include "server/models/model_source.h"
#include "server/models/model_state.h"
#include "server/models/served_model.h"
#include "server/models/version_order.h"

namespace gpux::server {

/// A request that waits for an evicted model.
struct Waiter {
  std::function<void(const std::shared_ptr<ServedModel>&)> use;
  std::function<void(const Error&)> fail;
  std::uint64_t number = 0;
};

void fail_all(const std::list<Waiter>& waiters, const Error& error) noexcept;

/// Consequences of state transitions that are carried out without the lock: models to drop and waiting requests to
/// fail.
struct TransitionEffects {
  std::vector<std::shared_ptr<ServedModel>> dropped;
  std::list<Waiter> failed;
};

/// One version of a model in the repository: source, state, loaded model and waiting requests. Under the repository's
/// lock.
struct ModelEntry {
  using Clock = std::chrono::steady_clock;

  ModelSource source;
  ModelState state = ModelState::queued;
  std::string reason;
  std::string fingerprint;                              ///< of what is loaded, or failed to be
  std::shared_ptr<ServedModel> model;                   ///< null unless is_serving(state)
  ModelAliases model_aliases;                           ///< of the source that `model` was loaded from
  std::shared_ptr<const ModelDescription> description;  ///< of the model, or of the last one
  /// Statistics of this version, kept when its model is reloaded.
  std::shared_ptr<ModelStatistics> statistics = std::make_shared<ModelStatistics>();
  std::optional<std::chrono::milliseconds> time_limit;  ///< of a request, as the model had it last
  std::uint64_t memory_bytes = 0;
  std::uint64_t last_use = 0;                           ///< counts uses of the repository
  Clock::time_point idle_since;                         ///< its last use, or its load
  std::optional<std::chrono::milliseconds> idle_limit;  ///< as a request asked; empty: RepositoryOptions::idle_unload
  std::optional<ErrorCode> failure;                     ///< of the last load
  unsigned failures = 0;                                ///< in a row
  Clock::time_point retry_at;                           ///< before it a failed load is not repeated
  bool is_restore_late = false;                         ///< requests have given up waiting for the restore that runs
  std::list<Waiter> waiters;                            ///< empty unless the state is restore_queued or restoring

  [[nodiscard]] const ModelAliases& aliases() const { return model ? model_aliases : source.aliases; }

  /// Whether the last load failed and it is too early for another attempt.
  [[nodiscard]] bool is_backing_off(Clock::time_point now) const { return failure && now < retry_at; }

  /// Goes on to the state that next() has, and moves what has to go into `after`. The rest is up to the caller.
  ModelActions apply(ModelEvent event, TransitionEffects& after);

  /// A load has failed: counts it and puts off the next attempt.
  void note_failure(const Error& error, std::chrono::milliseconds first_retry_delay);

  /// A load has succeeded: the model, which counts in `statistics`, serves.
  void install(const std::shared_ptr<ServedModel>& loaded, const ModelAliases& loaded_aliases,
               const std::shared_ptr<ModelDescription>& loaded_description, std::uint64_t grown_bytes);

  /// Resets the failures, after unload(), so that the next load is tried at once.
  void forget_failures();

  /// The error of a request while there is no model.
  [[nodiscard]] Error unready() const;

  /// unready() with the reason of the last load if that failed. Keeps the code of unready(): the request is not at
  /// fault.
  [[nodiscard]] Error refusal() const;
};

using ModelVersions = std::map<std::string, ModelEntry, VersionLess>;

/// "model minilm 1.0.0", for the log.
std::string label_of(const ModelSource& source);

/// Delay of the next load after `failures` failed loads in a row (1: the first).
std::chrono::milliseconds retry_delay(std::chrono::milliseconds first, unsigned failures) noexcept;

/// The error as clients see it: without paths of this machine, which are only in the log.
Error for_clients(const Error& error);

}  // namespace gpux::server
