#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/models/served_model.h"

namespace gpux::server {

/// Destroys models on a thread of its own: the last to let go of one may be a thread of that model's scheduler, which
/// cannot wait for itself.
class ModelReaper {
 public:
  ModelReaper();
  /// Waits for the models it was given.
  ~ModelReaper();
  ModelReaper(const ModelReaper&) = delete;
  ModelReaper& operator=(const ModelReaper&) = delete;

  static std::shared_ptr<ServedModel> adopt(const std::shared_ptr<ModelReaper>& reaper,
                                            std::unique_ptr<ServedModel> model);

  /// Adopted models that are still in use, in the order of their adoption.
  [[nodiscard]] std::vector<std::shared_ptr<ServedModel>> alive() const;

  /// Whether all that were adopted are destroyed by then.
  bool wait_for_all(std::chrono::steady_clock::time_point deadline);

 private:
  void take(ServedModel* dead);
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<ServedModel>> dead_;
  std::vector<std::weak_ptr<ServedModel>> adopted_;
  std::size_t alive_ = 0;
  bool ended_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace gpux::server
