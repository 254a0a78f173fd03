#pragma once

#include <chrono>

#include "server/models/repository_state.h"

namespace gpux::server {

/// How often idle models are looked for, where they are unloaded after `idle_unload` by default.
std::chrono::milliseconds idle_check_interval(std::chrono::milliseconds idle_unload) noexcept;

/// Evicts the models that serve, are not pinned, have no request, and had none for as long as their limit: that of
/// ModelEntry::idle_limit, or else that of the options. Models with requests are used as of `now`. Without the lock.
void evict_idle_models(RepositoryState& state, std::chrono::steady_clock::time_point now);

}  // namespace gpux::server
