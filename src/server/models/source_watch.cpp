#include "server/models/source_watch.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

// The same files would fail again.
bool is_permanent(ErrorCode code) noexcept {
  return code == ErrorCode::invalid_model || code == ErrorCode::invalid_config || code == ErrorCode::not_found ||
         code == ErrorCode::usage;
}

// There are versions to take the place of others, and none of them is served yet.
bool awaits_successor(const ModelVersions& versions, const std::set<std::string_view>& successors) {
  return !successors.empty() && std::ranges::none_of(versions, [&](const auto& version) {
    return successors.contains(version.first) &&
           (is_available(version.second.state) || version.second.state == ModelState::unloaded);
  });
}

}  // namespace

bool needs_load(RepositoryState& state, const ModelSource& source) {
  std::string last;
  {
    const std::lock_guard lock(state.mutex);
    ModelEntry* entry = state.table.find(source.name, source.version);
    if (entry == nullptr) return !source.on_demand;
    // A restore, or a load that is requested, uses what the list says now.
    entry->source = source;
    if (entry->state == ModelState::unloaded || is_on_demand(entry->state)) return false;
    if (entry->failure && !is_permanent(*entry->failure) && !entry->is_backing_off(Clock::now())) return true;
    last = entry->fingerprint;
  }
  return source.fingerprint && source.fingerprint() != last;
}

void drop_vanished(RepositoryState& state, const std::vector<ModelSource>& there, const std::string* only) {
  std::map<std::string_view, std::set<std::string_view>> known;
  for (const ModelSource& source : there) known[source.name].insert(source.version);
  std::vector<ModelEntry> dropped;
  {
    const std::lock_guard lock(state.mutex);
    auto& models = state.table.models();
    for (auto model = models.begin(); model != models.end();) {
      ModelVersions& versions = model->second;
      const auto named = known.find(model->first);
      const std::set<std::string_view> successors = named == known.end() ? std::set<std::string_view>() : named->second;
      const bool keeps_served = awaits_successor(versions, successors);
      for (auto version = versions.begin(); version != versions.end();) {
        const bool stays = (only != nullptr && model->first != *only) || successors.contains(version->first) ||
                           (keeps_served && is_available(version->second.state));
        if (stays) {
          ++version;
          continue;
        }
        dropped.push_back(std::move(version->second));
        version = versions.erase(version);
      }
      model = versions.empty() ? models.erase(model) : std::next(model);
    }
  }
  for (const ModelEntry& entry : dropped) {
    fail_all(entry.waiters,
             Error(ErrorCode::not_found, fmt::format("model '{}' is no longer served", entry.source.name)));
  }
}

}  // namespace gpux::server
