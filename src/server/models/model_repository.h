#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/error.h"
#include "server/models/model_description.h"
#include "server/models/model_eviction.h"
#include "server/models/model_source.h"
#include "server/models/model_state.h"
#include "server/models/served_model.h"
#include "server/telemetry/tracer.h"

namespace gpux::server {

struct ModelStatus {
  std::string name, version;
  ModelState state = ModelState::unloaded;
  std::string reason;              ///< why it is not ready, or why the last reload failed; without paths
  bool required = true;            ///< as of its source
  bool has_failed = false;         ///< its last load did
  bool is_stuck = false;           ///< it serves, and a run has not returned though nobody waits for it any more
  bool lacks_worker = false;       ///< it serves, and no worker process of a device that works is ready
  bool lacks_some_worker = false;  ///< one of them is not
  bool has_lost_device = false;    ///< it serves, and this process can no longer use its device
  std::size_t devices = 1;         ///< that it has sessions on
  std::size_t devices_out = 0;     ///< of these, those that have failed
  std::uint64_t memory_bytes = 0;  ///< of the host, that it takes since its load; 0: it is not loaded
};

struct RepositoryOptions {
  /// The models that were least recently used for inference are unloaded until the rest fits, and loaded again when a
  /// request needs them.
  ModelBudget budget;
  /// A model that is not pinned and has had no request for so long is unloaded, and loaded again when a request needs
  /// it; 0: never.
  std::chrono::milliseconds idle_unload{0};
  /// A request for a model that is not known loads it, if one of the sources has its name or alias.
  bool loads_by_name = false;
  std::chrono::milliseconds load_timeout{0};  ///< load() is answered by then; 0: no limit
  /// A failed load is not repeated by requests, or by refresh(), before this has passed; doubled by each failure up to
  /// a minute.
  std::chrono::milliseconds first_retry_delay{1000};
  /// Gives a model another configuration before it is loaded, and returns the one that was said before, as of
  /// ServedModels::configure(); null: models have none but their own.
  std::function<std::optional<std::string>(const std::string& name, const std::optional<std::string>& json)> configure;
  std::shared_ptr<const Tracer> tracer = {};  ///< each load is a trace of its own; null: it is none
};

/// The models of a server, by name and version: loads, reloads, unloads and evicts them while they are used. Each
/// version follows next() of model_state.h; one thread loads. A `name` that a request gives is a model's name or, where
/// no model has it, an alias as find_alias() has it: of what is loaded, or else of its source. A model that has been
/// replaced answers what it holds and ends when the last of its requests has. All calls from any thread.
class ModelRepository {
 public:
  /// All sources there are now; asked again for each load. Throws Error where they cannot be listed.
  using Sources = std::function<std::vector<ModelSource>()>;
  /// Called once, with an error that names no path of the machine: the log has it whole.
  using Done = std::function<void(const std::optional<Error>&)>;

  explicit ModelRepository(Sources sources, const RepositoryOptions& options = {});
  /// close() without a limit.
  ~ModelRepository();
  ModelRepository(const ModelRepository&) = delete;
  ModelRepository& operator=(const ModelRepository&) = delete;

  /// Loads every source that is not on demand, and waits; throws the first Error of one that is required, before any
  /// load where it is known by then, and logs the others.
  void load_all();

  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  /// Loads the model anew from its sources, all its versions. The old one serves until the new one is ready, and goes
  /// on where that fails. Where the sources cannot be listed, a known model is loaded from its last ones.
  /// Errors not_found, those of the load, usage where the name is an alias of one of several versions, interrupted
  /// where unload() came in between, and deadline_exceeded where it has not ended by then or within the options' limit,
  /// as a device may take long, or hang: the load goes on.
  /// `config`: of the model from now on, where the load succeeds; empty: its own. Error invalid_config, usage where
  /// models have none but their own.
  void load(std::string name, Deadline deadline, Done done, std::optional<std::string> config = {});

  /// Takes all versions of the model out of service, at once: a load that is queued is dropped, and what a running one
  /// makes is not served. Errors not_found, and usage as of load().
  void unload(std::string_view name, const Done& done);

  /// Looks for sources whose files have changed, that are new, or that have gone, and acts on it; but leaves alone what
  /// unload() took out of service. What fails is logged once per reason, and costs itself only. `done` may be null.
  void refresh(Done done);

  /// Models that are ready now.
  [[nodiscard]] std::vector<std::shared_ptr<ServedModel>> models() const;

  /// models(), and after them those that were taken out of service and still answer requests, where no model of their
  /// name and version serves.
  [[nodiscard]] std::vector<std::shared_ptr<ServedModel>> models_in_use() const;

  /// Descriptions of the served models, evicted ones included, in order of name and version.
  [[nodiscard]] std::vector<std::shared_ptr<const ModelDescription>> descriptions() const;

  /// The name of the model that `requested` means; `requested` where it means none or several.
  [[nodiscard]] std::string name_of(std::string_view requested) const;

  /// Names that are served, evicted ones among them, in order.
  [[nodiscard]] std::vector<std::string> names() const;

  /// Versions of that name which are served, in order.
  [[nodiscard]] std::vector<std::string> versions(std::string_view name) const;

  [[nodiscard]] bool loads_by_name() const noexcept;

  /// Sources that are loaded when a request names them, and were not yet. Errors as of Sources, without
  /// paths of this machine.
  [[nodiscard]] std::vector<ModelSource> on_demand() const;

  /// All that is known, in order of name and version.
  [[nodiscard]] std::vector<ModelStatus> index() const;

  /// The model; empty version: the highest that is served. Not a use of it.
  /// Errors not_found, provider_unavailable (it failed to load, is being loaded, or was evicted).
  [[nodiscard]] std::shared_ptr<ServedModel> find(std::string_view name, std::string_view version) const;

  /// find(), but null if the model was evicted and the next request loads it again. Errors of find(); of an evicted
  /// model provider_unavailable for as long as its last load failed and may not be repeated yet.
  [[nodiscard]] std::shared_ptr<ServedModel> find_available(std::string_view name, std::string_view version) const;

  /// The digest of the model, also while it is evicted; empty where it is not known.
  [[nodiscard]] std::string digest(std::string_view name) const;

  /// The description of the model, also while it is evicted. Does not count as a use of it. Errors as of find().
  [[nodiscard]] std::shared_ptr<const ModelDescription> description(std::string_view name,
                                                                    std::string_view version) const;

  /// For inference: the model if it serves; null where it was evicted, is being loaded or failed, or is not known and
  /// may be loaded by its name. Error not_found.
  [[nodiscard]] std::shared_ptr<ServedModel> use_ready(std::string_view name, std::string_view version);

  using Use = std::function<void(const std::shared_ptr<ServedModel>&)>;
  using Fail = std::function<void(const Error&)>;

  /// For inference: gives the model to `use` at once, on this thread; where it was evicted, later and on the
  /// repository's thread, when it has been loaded again, or its error to `fail`; deadline_exceeded on a thread of the
  /// repository where that takes longer than the deadline or than a request of the model may.
  /// Throws the errors of find_available().
  void use(std::string_view name, std::string_view version, const Use& use, const Fail& fail, Deadline deadline = {});

  /// Whether models are unloaded when they are idle.
  [[nodiscard]] bool unloads_idle_models() const noexcept;

  /// Unloads the model once it has had no request for `limit`, in place of RepositoryOptions::idle_unload; 0: when its
  /// last one has ended; milliseconds::max(): never. Not where unloads_idle_models() is false. Error not_found.
  void set_idle_limit(std::string_view name, std::string_view version, std::chrono::milliseconds limit);

  /// How long the loaded model stays from now on if nobody uses it; empty: until it is unloaded, or it is not known.
  [[nodiscard]] std::optional<std::chrono::milliseconds> idle_time_left(std::string_view name,
                                                                        std::string_view version) const;

  /// Cancels all requests, drops all models and waits until they have ended. False where some have not by then, or a
  /// load has not: a device that does not come back.
  bool close(std::chrono::steady_clock::time_point deadline);

 private:
  void load_and_use(std::string_view name, std::string_view version, const Use& use, const Fail& fail,
                    Deadline deadline);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux::server
