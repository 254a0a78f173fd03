#pragma once

#include <string>
#include <vector>

#include "server/models/repository_state.h"

/// Finds models to load and to drop after their sources changed. Runs on the loader's thread, between loads; without
/// the lock.
namespace gpux::server {

/// Whether the source is new, its files have changed, or its last load may be tried again; never of what is out of
/// service, or is loaded on demand.
bool needs_load(RepositoryState& state, const ModelSource& source);

/// Forgets versions that are no longer among the sources, of one model or (null) of all; but those that are served go
/// on until one that is among them is.
void drop_vanished(RepositoryState& state, const std::vector<ModelSource>& there, const std::string* only);

}  // namespace gpux::server
