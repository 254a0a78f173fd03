#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "gpux/error.h"
#include "server/models/model_aliases.h"
#include "server/models/model_parts.h"

namespace gpux::server {

/// One version of a model: where it comes from and how it is loaded.
struct ModelSource {
  std::string name, version;
  ModelAliases aliases;
  bool pinned = false;   ///< never evicted
  bool required = true;  ///< load_all() fails where this does
  /// Loaded when a request names it, and not before: RepositoryOptions::loads_by_name.
  bool on_demand = false;
  std::uint64_t size_bytes = 0;  ///< of its files, where that is known without a load
  int nice = 0;                  ///< of the threads that load and run it: with_nice()
  /// Loads the model, warm. Called on the repository's thread, one load at a time. Whatever it throws is this model's
  /// failure alone.
  std::function<ModelParts()> load;
  /// Differs when the files behind the model have changed. Null: they never do.
  std::function<std::string()> fingerprint;
  std::optional<Error> unusable;  ///< it cannot be found, as is known before load() says so
};

}  // namespace gpux::server
