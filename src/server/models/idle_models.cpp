#include "server/models/idle_models.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"

namespace gpux::server {
namespace {

struct Loaded {
  std::string name, version;
  std::shared_ptr<ServedModel> model;
  bool is_busy = false;
};

std::vector<Loaded> loaded_models(RepositoryState& state) {
  std::vector<Loaded> all;
  const std::lock_guard lock(state.mutex);
  for (const auto& [name, versions] : state.table.models()) {
    for (const auto& [version, entry] : versions) {
      if (entry.state == ModelState::ready && !entry.source.pinned) all.push_back({name, version, entry.model});
    }
  }
  return all;
}

}  // namespace

std::chrono::milliseconds idle_check_interval(std::chrono::milliseconds idle_unload) noexcept {
  using std::chrono::milliseconds;
  return std::clamp(idle_unload / 8, milliseconds(50), milliseconds(1000));
}

void evict_idle_models(RepositoryState& state, std::chrono::steady_clock::time_point now) {
  std::vector<Loaded> all = loaded_models(state);
  for (Loaded& one : all) {
    const runtime::SchedulerCounts counts = one.model->counts();
    one.is_busy = counts.waiting != 0 || counts.running != 0;
  }
  TransitionEffects after;
  const std::lock_guard lock(state.mutex);
  for (const Loaded& one : all) {
    ModelEntry* entry = state.table.find(one.name, one.version);
    if (entry == nullptr || entry->model != one.model || entry->state != ModelState::ready) continue;
    if (one.is_busy) entry->idle_since = now;
    const std::chrono::milliseconds limit = entry->idle_limit.value_or(state.options.idle_unload);
    if (one.is_busy || limit == std::chrono::milliseconds::max() || now - entry->idle_since < limit) continue;
    log::info("{} is unloaded: it had no request for {} s", label_of(entry->source),
              std::chrono::duration_cast<std::chrono::seconds>(now - entry->idle_since).count());
    entry->apply(ModelEvent::eviction, after);
    entry->idle_limit.reset();
    entry->reason = "unloaded, as it was idle; the next request loads it again";
  }
}

}  // namespace gpux::server
