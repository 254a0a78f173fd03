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
#include "server/served_model.h"

namespace gpux::server {

/// One version of a model: where it comes from and how it is loaded.
struct ModelSource {
  std::string name, version;
  bool pinned = false;   ///< never evicted
  bool required = true;  ///< load_all() fails where this does
  /// Makes the model, warm. Called on the repository's thread, one load at a time. Throws Error.
  std::function<std::unique_ptr<ServedModel>()> load;
  /// Differs when the files behind the model have changed. Null: they never do.
  std::function<std::string()> fingerprint;
};

enum class ModelState : std::uint8_t { unloaded, loading, ready, evicted, failed };

struct ModelStatus {
  std::string name, version;
  ModelState state = ModelState::unloaded;
  std::string reason;    ///< why it is not ready, or why the last reload came to nothing; without paths
  bool required = true;  ///< as of its source
};

struct RepositoryOptions {
  /// Models used least lately are unloaded until the rest fits, and loaded again when they are asked for. 0: no limit.
  std::uint64_t memory_budget_bytes = 0;
  std::chrono::milliseconds load_timeout{0};  ///< who asks for a load or its end is answered by then; 0: no limit
};

/// Orders versions by the numbers in them: "2" before "10", "1.9" before "1.10".
bool version_less(std::string_view left, std::string_view right) noexcept;

/// The models of a server, by name and version: loads, reloads, unloads and evicts them while they are used. A model
/// that has been replaced answers what it holds and ends when the last of its requests has. All calls from any thread.
class ModelRepository {
 public:
  /// All sources there are now; asked again for each load. Throws Error where they cannot be told.
  using Sources = std::function<std::vector<ModelSource>()>;
  /// Called once, on a thread of the repository, with an error that names no path of the machine: the log has it whole.
  using Done = std::function<void(const std::optional<Error>&)>;

  explicit ModelRepository(Sources sources, const RepositoryOptions& options = {});
  /// close() without a limit.
  ~ModelRepository();
  ModelRepository(const ModelRepository&) = delete;
  ModelRepository& operator=(const ModelRepository&) = delete;

  /// Loads every source and waits; throws the first Error of one that is required, and logs the others.
  void load_all();

  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  /// Loads the model anew from its sources, all its versions. The old one serves until the new one is ready, and goes
  /// on where that fails. Errors not_found, those of the load, and deadline_exceeded where it has not ended by then or
  /// within the options' limit; as a device may take long, or hang. It goes on then.
  void load(std::string name, Deadline deadline, Done done);

  /// Takes all versions of the model out of service, after the loads that were asked for before. Errors not_found, and
  /// deadline_exceeded as of load().
  void unload(std::string name, Deadline deadline, Done done);

  /// Looks for sources whose files have changed, that are new, or that have gone, and acts on it; but leaves alone what
  /// unload() took out of service.
  void refresh(Done done);

  /// What is ready now.
  [[nodiscard]] std::vector<std::shared_ptr<ServedModel>> models() const;

  /// Names that are served, evicted ones among them, in order.
  [[nodiscard]] std::vector<std::string> names() const;

  /// Versions of that name which are served, in order.
  [[nodiscard]] std::vector<std::string> versions(std::string_view name) const;

  /// All that is known, in order of name and version.
  [[nodiscard]] std::vector<ModelStatus> index() const;

  /// The model; empty version: the highest that is ready. Counts as a use of it.
  /// Errors not_found, provider_unavailable (it failed to load, is being loaded, or was evicted).
  [[nodiscard]] std::shared_ptr<ServedModel> find(std::string_view name, std::string_view version);

  /// The same; null where it is not ready. Error not_found.
  [[nodiscard]] std::shared_ptr<ServedModel> find_ready(std::string_view name, std::string_view version);

  using Use = std::function<void(const std::shared_ptr<ServedModel>&)>;
  using Fail = std::function<void(const Error&)>;

  /// Gives the model to `use` at once, on this thread; where it was evicted, later and on the repository's thread, when
  /// it has been loaded again, or its error to `fail`; deadline_exceeded where that takes longer than a request may, on
  /// a thread of the repository. Throws the errors of find().
  void use(std::string_view name, std::string_view version, Use use, Fail fail);

  /// Cancels all requests, drops all models and waits until they have ended. False where some have not by then, or a
  /// load has not: a device that does not come back.
  bool close(std::chrono::steady_clock::time_point deadline);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux::server
