#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_lock.h"
#include "daemon/pipeline.h"
#include "daemon/source.h"
#include "daemon/state_file.h"
#include "daemon/status.h"
#include "daemon/store_sink.h"
#include "daemon/vector_folder.h"

namespace gpux::daemon {

/// Opens the model that the state file, flags and variables come to, or with a `level` that level's. Null: it is the
/// level `none`. Errors are reported.
using ModelSource = std::function<std::shared_ptr<const OpenModel>(const StateFile&, const std::string& level)>;

/// Watches the sources of a state file, and writes a vector for each event, into a folder or a collection. Its state
/// is in OUTPUT/daemon, next to vectors, timing and rejected, and is consistent at any time: it may be killed. start(),
/// reload() and tick() are called by one thread.
class Daemon {
 public:
  /// `workers`: events side by side, before what the state file says; 0: not said. `sink`: the collection of the
  /// vectors; empty: they are files of the output folder.
  Daemon(ModelSource open_model, unsigned workers, std::optional<vector_store::StoreUrl> sink = std::nullopt);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// Takes what the state file says from now on. Sources that stay the same are not disturbed. What it throws (storage
  /// also where another process writes the same output; as of the model source) leaves all as it was.
  void apply(StateFile state);

  /// To be called several times a second: writes OUTPUT/daemon/status.json where that is due, and chooses the level.
  void tick();

  /// Sets the problem of the state file in use, for the status; empty: none.
  void set_state_file_problem(const std::string& problem);

  /// Whether vectors are made: not with the level `none`.
  [[nodiscard]] bool is_active() const;

  /// Status of the daemon. Called from any thread.
  [[nodiscard]] DaemonStatus status() const;

  /// Ends: what is being embedded is written, what waits is found again by the next start.
  void stop();

 private:
  /// A folder that this process alone writes.
  struct Output {
    std::filesystem::path folder;
    FileLock lock;
    VectorFolder vectors;
  };

  void require_collection(const OpenModel& model);
  void take_down();
  void set_up(const StateFile& state);
  void change_sources(const StateFile& state);
  void let_go(const std::shared_ptr<Source>& source);
  void choose_level(std::uint64_t waiting);
  void write_status();

  const ModelSource open_model_;
  const unsigned workers_;
  const std::optional<vector_store::StoreUrl> sink_;
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();

  mutable std::mutex mutex_;  // of what status() sees; only the thread of apply() and tick() changes it
  StateFile state_;
  std::shared_ptr<const OpenModel> declared_, lesser_;
  bool is_downgraded_ = false, lesser_failed_ = false;
  std::unique_ptr<Output> output_;
  std::unique_ptr<StoreSink> store_;  // null: the output folder takes the vectors
  std::unique_ptr<EventPipeline> pipeline_;
  std::vector<std::shared_ptr<Source>> sources_;
  SourceStatus gone_;  // counts of sources that have gone
  std::string state_file_problem_;
  std::deque<std::pair<std::chrono::steady_clock::time_point, std::uint64_t>> written_;  // in the last seconds
  std::chrono::steady_clock::time_point next_status_;
  std::string status_problem_;
};

}  // namespace gpux::daemon
