#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/models/repository_state.h"
#include "server/models/source_list.h"

namespace gpux::server {

/// The thread that loads a repository's models, one after the other, as its jobs say.
class ModelLoader {
 public:
  /// The state outlives the loader.
  ModelLoader(RepositoryState& state, ModelRepository::Sources sources);

  /// Joins the loader's thread. Requires `loading_ended` of the state.
  void join();

  /// Loads the source where the event has it so, and puts it in the place of what was there. On the loader's thread, or
  /// while it has no job yet; without the lock. `is_reported`: the caller reports a failure, so that the log need not.
  std::optional<Error> load_source(const ModelSource& source, ModelEvent event, bool is_reported = false);

 private:
  /// What has become of a load.
  struct Trial {
    std::string fingerprint;
    std::shared_ptr<ServedModel> loaded;
    std::shared_ptr<ModelDescription> description;
    std::optional<Error> failure;
  };

  void work();
  [[nodiscard]] Trial try_load(const ModelSource& source, const std::shared_ptr<ModelStatistics>& statistics) const;
  void log_failure(const ModelSource& source, const Error& failure, bool is_known) const;
  [[nodiscard]] std::uint64_t worker_bytes(const ModelSource& source, const ServedModel* loaded) const;
  void perform(const LoadJob& job);
  std::optional<Error> load_model(const LoadJob& job);
  void restore(const LoadJob& job);
  std::optional<Error> refresh_all();
  std::vector<ModelSource> sources_of(std::string& name, bool& are_current);

  RepositoryState& state_;
  SourceList list_;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace gpux::server
